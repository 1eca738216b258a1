"""Prompts with structure: what is text and what is a document.

Structure travels *beside* the characters, never inside them. The two carriers
are subclasses of the types that SGLang already passes around (``str`` for a
prompt, ``list`` for token ids), so batching, parallel sampling, copying and
pickling treat them as ordinary prompts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, cast, get_args

ChunkContext = Literal["none", "sink", "preamble"]
"""What a document may attend to before itself (docs/design.md, "Quality modes")."""

CHUNK_CONTEXTS: tuple[str, ...] = get_args(ChunkContext)

MAX_LINK_TOKENS = 256
"""Of a document. A document that is not cached is computed with so many tokens more."""


class TextSegment(NamedTuple):
    """A run of characters of one kind."""

    text: str
    is_document: bool


class SegmentedPrompt(str):
    """A prompt's characters, with the segments they came from.

    Compares, prints and serialises as the plain concatenation. Adding a plain
    string on either side adds a text segment; adding another segmented prompt
    joins both structures.
    """

    segments: tuple[TextSegment, ...]
    chunk_context: ChunkContext | None
    chunk_link_tokens: int | None

    def __new__(
        cls,
        segments: Iterable[TextSegment],
        chunk_context: ChunkContext | None = None,
        chunk_link_tokens: int | None = None,
    ) -> SegmentedPrompt:
        kept = tuple(segments)
        self = super().__new__(cls, "".join(s.text for s in kept))
        self.segments = kept
        self.chunk_context = chunk_context
        self.chunk_link_tokens = chunk_link_tokens
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.segments, self.chunk_context, self.chunk_link_tokens))

    def __str__(self) -> SegmentedPrompt:
        # The frontend interpreter normalises with str(); keep the structure.
        return self

    def __add__(self, other: str) -> SegmentedPrompt:
        if not isinstance(other, str):
            return NotImplemented
        chunk_context, chunk_link_tokens = self.chunk_context, self.chunk_link_tokens
        if chunk_context is None:
            chunk_context = getattr(other, "chunk_context", None)
        if chunk_link_tokens is None:
            chunk_link_tokens = getattr(other, "chunk_link_tokens", None)
        joined = _join(self.segments, _segments_of(other))
        return SegmentedPrompt(joined, chunk_context, chunk_link_tokens)

    def __radd__(self, other: str) -> SegmentedPrompt:
        if not isinstance(other, str):
            return NotImplemented
        joined = _join(_segments_of(other), self.segments)
        return SegmentedPrompt(joined, self.chunk_context, self.chunk_link_tokens)

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        """Slices keep the structure; single characters are plain strings."""
        if not isinstance(index, slice):
            return super().__getitem__(index)
        start, stop, step = index.indices(len(self))
        if step != 1:
            return super().__getitem__(index)
        cut, offset = [], 0
        for segment in self.segments:
            low, high = max(start - offset, 0), min(stop - offset, len(segment.text))
            if low < high:
                cut.append(segment._replace(text=segment.text[low:high]))
            offset += len(segment.text)
        return SegmentedPrompt(cut, self.chunk_context, self.chunk_link_tokens)

    @property
    def has_documents(self) -> bool:
        return any(s.is_document for s in self.segments)

    def to_json(self) -> list[dict[str, str]]:
        """The ``segments`` field of a request that says the same."""
        return [{"document" if s.is_document else "text": s.text} for s in self.segments]


def _segments_of(text: str) -> tuple[TextSegment, ...]:
    if isinstance(text, SegmentedPrompt):
        return text.segments
    return (TextSegment(text, False),) if text else ()


def _join(left: tuple[TextSegment, ...], right: tuple[TextSegment, ...]) -> tuple[TextSegment, ...]:
    """Concatenate; text that meets text becomes one segment, so that it is tokenised as one."""
    if left and right and not left[-1].is_document and not right[0].is_document:
        met = TextSegment(left[-1].text + right[0].text, False)
        return (*left[:-1], met, *right[1:])
    return left + right


class SegmentedIds(list[int]):
    """Token ids with the half-open ranges ``[start, end)`` that are documents."""

    def __init__(
        self,
        input_ids: Iterable[int],
        document_spans: Iterable[tuple[int, int]],
        chunk_context: ChunkContext | None = None,
        chunk_link_tokens: int | None = None,
    ) -> None:
        super().__init__(input_ids)
        self.document_spans = tuple(document_spans)
        self.chunk_context = chunk_context
        self.chunk_link_tokens = chunk_link_tokens

    def __add__(self, text_ids: list[int]) -> SegmentedIds:  # type: ignore[override]
        """The prompt continued by text."""
        continued = copy.copy(self)
        continued.extend(text_ids)
        return continued


def parse_chunk_context(value: Any) -> ChunkContext | None:
    """Check a request's ``chunk_context``.

    Raises:
        ValueError: it is none of the modes.
    """
    if value is None or value in CHUNK_CONTEXTS:
        return cast("ChunkContext | None", value)
    raise ValueError(f"chunk_context must be one of {', '.join(CHUNK_CONTEXTS)}; got {value!r}")


def parse_link_tokens(value: Any) -> int | None:
    """Check a ``chunk_link_tokens``, of a request or of the server.

    Raises:
        ValueError: it is no number of tokens.
    """
    if value is None or (_is_int(value) and 0 <= value <= MAX_LINK_TOKENS):
        return cast("int | None", value)
    raise ValueError(
        f"chunk_link_tokens must be an integer from 0 to {MAX_LINK_TOKENS}; got {value!r}"
    )


def parse_options(chunk_context: Any = None, chunk_link_tokens: Any = None) -> dict[str, Any]:
    """Check a request's options for its documents; as arguments of the prompts above.

    Raises:
        ValueError: with a sentence that names the option and the fault.
    """
    return {
        "chunk_context": parse_chunk_context(chunk_context),
        "chunk_link_tokens": parse_link_tokens(chunk_link_tokens),
    }


def parse_segments(
    segments: Any, chunk_context: Any = None, chunk_link_tokens: Any = None
) -> SegmentedPrompt:
    """Read one prompt's ``segments`` field.

    Args:
        segments: a non-empty sequence of ``{"text": str}`` and ``{"document": str}``.
        chunk_context: the request's override of ``--chunk-context``, or None.
        chunk_link_tokens: the request's override of ``--chunk-link-tokens``, or None.

    Raises:
        ValueError: with a sentence that names the segment and the fault.
    """
    if not isinstance(segments, Sequence) or isinstance(segments, (str, bytes)):
        raise ValueError(f"segments must be a list of objects; got {type(segments).__name__}")
    if not segments:
        raise ValueError("segments is empty; a prompt needs at least one text segment")
    parsed = [_parse_segment(i, segment) for i, segment in enumerate(segments)]
    if parsed[-1].is_document:
        raise ValueError(
            "the prompt ends in a document; the last segment must be a non-empty text segment, "
            "since the answer is computed from its last token"
        )
    return SegmentedPrompt(parsed, **parse_options(chunk_context, chunk_link_tokens))


def _parse_segment(index: int, segment: Any) -> TextSegment:
    where = f"segments[{index}]"
    if not isinstance(segment, dict):
        raise ValueError(
            f'{where} must be an object like {{"text": ...}} or {{"document": ...}}; '
            f"got {type(segment).__name__}"
        )
    if unknown := sorted(str(key) for key in segment.keys() - {"text", "document"}):
        raise ValueError(
            f"{where} has the unknown key {', '.join(unknown)}; use 'text' or 'document'"
        )
    if len(segment) != 1:
        raise ValueError(f"{where} must have exactly one of the keys 'text' and 'document'")
    ((key, text),) = segment.items()
    if not isinstance(text, str):
        raise ValueError(f"{where}[{key!r}] must be a string; got {type(text).__name__}")
    if key == "document" and not text:
        raise ValueError(f"{where} is an empty document")
    return TextSegment(text, key == "document")


def parse_document_spans(
    input_ids: Any, document_spans: Any, chunk_context: Any = None, chunk_link_tokens: Any = None
) -> SegmentedIds:
    """Read one prompt given as ``input_ids`` with ``document_spans``.

    Args:
        input_ids: the prompt's token ids.
        document_spans: ``[start, end)`` pairs in token units, in order, disjoint.
        chunk_context: the request's override of ``--chunk-context``, or None.
        chunk_link_tokens: the request's override of ``--chunk-link-tokens``, or None.

    Raises:
        ValueError: with a sentence that names the span and the fault.
    """
    # A set of types: ten thousand ids are checked in a fraction of a millisecond.
    if not isinstance(input_ids, Sequence) or set(map(type, input_ids)) - {int}:
        raise ValueError("document_spans needs input_ids, a list of token ids")
    if not isinstance(document_spans, Sequence) or isinstance(document_spans, (str, bytes)):
        raise ValueError("document_spans must be a list of [start, end) pairs")
    spans: list[tuple[int, int]] = []
    previous_end = 0
    for i, span in enumerate(document_spans):
        where = f"document_spans[{i}]"
        is_pair = isinstance(span, Sequence) and len(span) == 2 and all(map(_is_int, span))
        if not is_pair:
            raise ValueError(f"{where} must be a pair of integers [start, end); got {span!r}")
        start, end = span
        if start < 0 or end > len(input_ids):
            raise ValueError(
                f"{where} = [{start}, {end}) runs past the prompt of {len(input_ids)} tokens"
            )
        if start >= end:
            raise ValueError(f"{where} = [{start}, {end}) is an empty document")
        if start < previous_end:
            raise ValueError(
                f"{where} = [{start}, {end}) overlaps or precedes document_spans[{i - 1}]; "
                "spans must be disjoint and in order"
            )
        spans.append((start, end))
        previous_end = end
    if spans and previous_end == len(input_ids):
        raise ValueError(
            "the prompt ends in a document; at least one text token must follow the last span, "
            "since the answer is computed from it"
        )
    return SegmentedIds(input_ids, spans, **parse_options(chunk_context, chunk_link_tokens))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
