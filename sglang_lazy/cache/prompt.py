"""A prompt with documents, as keys of the chunk tree."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import NamedTuple

from sglang_lazy.cache.context import ContextTable, Segment, Tokens
from sglang_lazy.request.segments import ChunkContext
from sglang_lazy.request.wire import PromptShape


class SegmentKey(NamedTuple):
    """Where a segment's KV is filed: below ``namespace``, behind the tokens ``prefix``.

    The path ``prefix + tokens`` says at which position each token was computed
    and what it attended to, as in any radix tree. A document stands behind its
    context; text before the first document behind nothing; text after documents
    behind nothing, in a namespace of its own (a ``TextContext``).
    """

    namespace: Hashable
    prefix: Tokens


class DocumentPrompt:
    """The segments of one request and their keys.

    Args:
        shape: where the documents lie.
        input_ids: the prompt's token ids, ``array("q")`` of ``shape.num_tokens``.
        namespace: isolates tenants and adapters; None shares with plain prompts.
        sink_token_id: the token that documents see in mode ``sink``.
        table: interns segments and hashes contexts.
    """

    def __init__(
        self,
        shape: PromptShape,
        input_ids: Tokens,
        namespace: Hashable,
        sink_token_id: int | None,
        table: ContextTable,
    ) -> None:
        self.shape = shape
        self.namespace = namespace
        ranges = list(_segment_ranges(shape))
        self.starts = tuple(start for start, _, _ in ranges)
        self.is_document = tuple(is_document for _, _, is_document in ranges)
        # The last segment grows with the answer, so it is never a context.
        before_last = tuple(
            table.intern(input_ids[start:end], is_document)
            for start, end, is_document in ranges[:-1]
        )
        self.context = self._context_tokens(before_last, sink_token_id)
        self.has_own_context = (
            bool(self.context)
            and not self.is_document[0]
            and (before_last[0].tokens[: len(self.context)] == self.context)
        )
        self.keys = tuple(self._key(i, before_last, table) for i in range(len(ranges)))
        self._digests = tuple(s.digest for s in before_last)

    def _context_tokens(self, segments: tuple[Segment, ...], sink_token_id: int | None) -> Tokens:
        mode: ChunkContext = self.shape.chunk_context
        if mode == "sink":
            assert sink_token_id is not None, "checked when the server starts"
            return array("q", [sink_token_id])
        if mode == "preamble" and not segments[0].is_document:
            return segments[0].tokens
        return array("q")

    def _key(self, i: int, segments: tuple[Segment, ...], table: ContextTable) -> SegmentKey:
        if self.is_document[i]:
            return SegmentKey(self.namespace, self.context)
        if i == 0:
            return SegmentKey(self.namespace, array("q"))
        context = table.context(self.namespace, self.shape.chunk_context, segments[:i])
        return SegmentKey(context, array("q"))

    def document_id(self, segment: int) -> Hashable:
        """Names a document with its namespace and context; equal ids are equal up to hashes."""
        return (self.namespace, self.context.tobytes(), self._digests[segment])

    @property
    def has_detached_sink(self) -> bool:
        """Whether the sink that documents see is not the prompt's own first token."""
        return bool(self.context) and not self.has_own_context

    def tokens(self, segment: int, all_ids: Tokens) -> Tokens:
        """A segment's tokens; the last one goes on with what was generated."""
        is_last = segment == len(self.starts) - 1
        return all_ids[self.starts[segment] : None if is_last else self.starts[segment + 1]]


def _segment_ranges(shape: PromptShape) -> list[tuple[int, int, bool]]:
    """All segments in order as (start, end, is_document); text between documents merged."""
    ranges = []
    end_of_last = 0
    for start, end in shape.document_spans:
        if end_of_last < start:
            ranges.append((end_of_last, start, False))
        ranges.append((start, end, True))
        end_of_last = end
    ranges.append((end_of_last, shape.num_tokens, False))
    return ranges
