"""A prompt with documents, as keys of the chunk tree."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
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

    With link tokens, the first ``shape.link_tokens`` tokens of each document, its *head*,
    are text: they join the text before them, and the segment of the document is its
    *tail*. A document that has no tail is text altogether.

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
        marked = list(_marked_ranges(shape))
        # The last segment grows with the answer, so it is never a context.
        before_last = tuple(
            table.intern(input_ids[start:end], is_document)
            for start, end, is_document in marked[:-1]
        )
        parts = list(_parts(marked, shape.link_tokens))
        self.starts = tuple(part.start for part in parts)
        self.is_document = tuple(part.is_document for part in parts)
        self.context = array("q")
        if any(self.is_document):
            self.context = self._context_tokens(before_last, sink_token_id)
        self.has_own_context = (
            bool(self.context)
            and not self.is_document[0]
            and input_ids[: len(self.context)] == self.context
        )
        self._documents = [before_last[p.marked] if p.is_document else None for p in parts]
        self.heads = tuple(shape.link_tokens if p.is_document else 0 for p in parts)
        self.keys = tuple(self._key(part, before_last, table) for part in parts)

    def _context_tokens(self, segments: tuple[Segment, ...], sink_token_id: int | None) -> Tokens:
        mode: ChunkContext = self.shape.chunk_context
        if mode == "sink":
            assert sink_token_id is not None, "checked when the server starts"
            return array("q", [sink_token_id])
        if mode == "preamble" and not segments[0].is_document:
            return segments[0].tokens
        return array("q")

    def _key(self, part: _Part, segments: tuple[Segment, ...], table: ContextTable) -> SegmentKey:
        if part.is_document:
            head = segments[part.marked].tokens[: self.shape.link_tokens]
            return SegmentKey(self.namespace, self.context + head)
        if part.start == 0:
            return SegmentKey(self.namespace, array("q"))
        shape = self.shape
        before = segments[: part.marked]
        context = table.context(self.namespace, shape.chunk_context, shape.link_tokens, before)
        return SegmentKey(context, array("q"))

    def document_id(self, segment: int) -> Hashable:
        """Names a document with its namespace and context: equal names, equal documents.

        The segment itself stands for its tokens, not its digest: a request would else wait
        for another document whose digest collides.
        """
        document = self._documents[segment]
        assert document is not None
        return (self.namespace, self.context.tobytes(), document)

    @property
    def context_key(self) -> SegmentKey:
        """Where the context is filed."""
        return SegmentKey(self.namespace, array("q"))

    @property
    def head_key(self) -> SegmentKey:
        """Where whole documents are filed, and so their heads as they were encoded alone."""
        return SegmentKey(self.namespace, self.context)

    def local_head(self, segment: int) -> Tokens:
        """The tokens of a document before its segment."""
        return self.keys[segment].prefix[len(self.context) :]

    @property
    def has_detached_sink(self) -> bool:
        """Whether the sink that documents see is not the prompt's own first token."""
        return bool(self.context) and not self.has_own_context

    @property
    def num_detached(self) -> int:
        """Tokens that the documents rest on and the prompt does not hold: sink and heads."""
        return int(self.has_detached_sink) + sum(self.heads)

    def tokens(self, segment: int, all_ids: Tokens) -> Tokens:
        """A segment's tokens; the last one goes on with what was generated."""
        is_last = segment == len(self.starts) - 1
        return all_ids[self.starts[segment] : None if is_last else self.starts[segment + 1]]


class _Part(NamedTuple):
    """A segment as it is computed.

    Attributes:
        start: its first token.
        is_document: whether it is (the tail of) a document.
        marked: index of that document among the marked segments; of text, the number of
            marked segments that end before it.
    """

    start: int
    is_document: bool
    marked: int


def _parts(marked: list[tuple[int, int, bool]], link_tokens: int) -> Iterator[_Part]:
    text, num_before = 0, 0  # start of the text being collected
    for i, (start, end, is_document) in enumerate(marked):
        tail = start + link_tokens
        if not is_document or tail >= end:
            continue
        if text < tail:
            yield _Part(text, False, num_before)
        yield _Part(tail, True, i)
        text, num_before = end, i + 1
    yield _Part(text, False, num_before)


def _marked_ranges(shape: PromptShape) -> Iterator[tuple[int, int, bool]]:
    """All segments in order as (start, end, is_document); text between documents merged."""
    end_of_last = 0
    for start, end in shape.document_spans:
        if end_of_last < start:
            yield end_of_last, start, False
        yield start, end, True
        end_of_last = end
    yield end_of_last, shape.num_tokens, False
