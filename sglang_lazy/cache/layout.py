"""Where the tokens of a prompt with documents lie in its row of ``req_to_token``.

Two orders are in play. The *logical* order is the prompt's. The *physical* order
is that of the row: first every token found in the cache, then every token that
must be computed, both in logical order. SGLang sees an ordinary prefix and an
extend range; since the row is a permutation of the prompt, its length, and with it
the position of every generated token, is unchanged.

    logical    S S S | A A A A | B B B | Q Q          A cached, S half cached
    physical   S S | A A A A || S | B B B | Q Q ...   generated tokens follow
               '-- cached --'  '- computed -'

Whatever a token attends to stands before it logically, hence it is cached, or
computed in an earlier chunk or in the same pass: a chunked-prefill cut may fall
anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """A run of one segment's tokens that lies contiguously in the row.

    Attributes:
        segment: index of the segment.
        offset: the run's first token, counted from the segment's start.
        start: the run's first place in the row.
        length: number of tokens.
    """

    segment: int
    offset: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class Span(NamedTuple):
    """Keys that a query attends to: ``length`` places of the row from ``start``.

    ``position_offset`` is Δ of docs/design.md: the query is rotated back by it.
    """

    start: int
    length: int
    position_offset: int


@dataclass(frozen=True)
class PromptLayout:
    """The layout of one request, fixed when it is admitted.

    Attributes:
        lengths: tokens of each segment, in logical order.
        is_document: whether each segment is a document.
        cached: tokens of each segment's head that were found in the cache.
        context_length: c, the tokens that documents see before themselves.
        has_own_context: those are the prompt's own first tokens; otherwise they
            are one sink token that the prompt does not hold.
        heads: of each segment that is the tail of a document, the tokens of the document
            before it, which the prompt holds as text; empty where there are no tails.
    """

    lengths: tuple[int, ...]
    is_document: tuple[bool, ...]
    cached: tuple[int, ...]
    context_length: int
    has_own_context: bool
    heads: tuple[int, ...] = ()

    @cached_property
    def segment_starts(self) -> tuple[int, ...]:
        """Logical position of each segment's first token."""
        return tuple(np.concatenate(([0], np.cumsum(self.lengths)[:-1])).tolist())

    @cached_property
    def num_tokens(self) -> int:
        return sum(self.lengths)

    @cached_property
    def num_cached(self) -> int:
        return sum(self.cached)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The row, piece by piece."""
        pieces: list[Piece] = []
        start = 0
        heads = [(i, 0, n) for i, n in enumerate(self.cached)]
        tails = [(i, n, self.lengths[i] - n) for i, n in enumerate(self.cached)]
        for segment, offset, length in heads + tails:
            if length:
                pieces.append(Piece(segment, offset, start, length))
                start += length
        return tuple(pieces)

    def pieces_of(self, segment: int) -> list[Piece]:
        """A segment's pieces: its cached head, then its computed tail, where not empty."""
        return [p for p in self.pieces if p.segment == segment]

    @property
    def has_sink_span(self) -> bool:
        """Whether documents attend to a sink token that the prompt does not hold."""
        return self.context_length > 0 and not self.has_own_context

    @property
    def text_sees_sink(self) -> bool:
        """Text sees the sink, at position -1, where nothing stands before the first document."""
        return self.has_sink_span and self.is_document[0]

    def position_offset(self, segment: int) -> int:
        """Δ of a segment: logical minus stored position of its tokens."""
        if not self.is_document[segment]:
            return 0
        return self.segment_starts[segment] - self.head(segment) - self.context_length

    def head(self, segment: int) -> int:
        """Tokens of a document before its segment, as it was encoded."""
        return self.heads[segment] if self.heads else 0

    def computed_segments(self, start: int, stop: int) -> list[int]:
        """Segments that have a token among the places [start, stop) of the row."""
        return [p.segment for p in self.pieces if p.start < stop and p.end > start]

    @cached_property
    def permutation(self) -> np.ndarray:
        """Logical index of each place of the row; int64 ``[num_tokens]``."""
        moved = [self.segment_starts[p.segment] + p.offset - p.start for p in self.pieces]
        return np.arange(self.num_tokens) + np.repeat(moved, [p.length for p in self.pieces])

    def positions(self, start: int, stop: int) -> np.ndarray:
        """Rotary positions of the places [start, stop) of the row; int64."""
        pieces = [p for p in self.pieces if p.start < stop and p.end > start]
        offsets = [self.position_offset(p.segment) for p in pieces]
        lengths = [min(p.end, stop) - max(p.start, start) for p in pieces]
        return self.permutation[start:stop] - np.repeat(offsets, lengths)

    def context_spans(self) -> list[Span]:
        """What documents see before themselves, in the row; without a detached sink."""
        if not self.has_own_context:
            return []
        spans, left = [], self.context_length
        for piece in self.pieces_of(0):
            length = min(left, piece.length)
            if length:
                spans.append(Span(piece.start, length, 0))
                left -= length
        return spans

    def spans_before(self, piece: Piece) -> list[Span]:
        """What every query of ``piece`` sees outside the piece itself, merged where contiguous."""
        if self.is_document[piece.segment]:
            spans = self.context_spans()
            spans += [Span(p.start, p.length, 0) for p in self._heads_before(piece)]
            return _merge(spans)
        spans = [
            span
            for p, span in zip(self.pieces, self.spans, strict=True)
            if p.segment < piece.segment
        ]
        spans += [Span(p.start, p.length, 0) for p in self._heads_before(piece)]
        return _merge(spans)

    @cached_property
    def spans(self) -> list[Span]:
        """Each piece as keys."""
        offsets = [self.position_offset(i) for i in range(len(self.lengths))]
        return [Span(p.start, p.length, offsets[p.segment]) for p in self.pieces]

    def _heads_before(self, piece: Piece) -> list[Piece]:
        return [p for p in self.pieces_of(piece.segment) if p.offset < piece.offset]


def _merge(spans: Sequence[Span]) -> list[Span]:
    """Join neighbours in the row that share an offset; order does not matter to attention."""
    merged: list[Span] = []
    start = end = offset = 0
    for next_start, length, next_offset in sorted(spans):
        if next_start == end and next_offset == offset:
            end += length
            continue
        if start < end:
            merged.append(Span(start, end - start, offset))
        start, end, offset = next_start, next_start + length, next_offset
    return [*merged, Span(start, end - start, offset)] if start < end else merged
