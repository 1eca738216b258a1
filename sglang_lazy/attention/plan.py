"""Ragged metadata of one forward pass, shared by all layers (docs/design.md, "One pass")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch

from sglang_lazy.cache.layout import Piece, PromptLayout, Span


@dataclass(frozen=True)
class AttentionPlan:
    """Query segments and the key spans they attend to; NumPy arrays but for the slots.

    Attributes:
        qo_indptr: int32 ``[num_segments + 1]``, query rows of each segment.
        span_indptr: int32 ``[num_segments + 1]``, spans of each segment; the last
            span of a segment is its own and causal.
        span_start: int64 ``[num_spans]``, first entry of each span in ``kv_indices``.
        span_len: int32 ``[num_spans]``.
        position_offsets: int32 ``[num_spans]``, Δ of each span.
        span_ids: int64 ``[num_spans]``, where spans of equal id and length hold the same
            keys; None where spans were merged, so that no two of them can.
        kv_indices: int32 ``[num_keys]``, slots, on the device: the requests' rows of
            ``req_to_token`` one after the other. A copy, since SGLang's scheduler may
            give a row to another request while the pass still runs.
    """

    qo_indptr: np.ndarray
    span_indptr: np.ndarray
    span_start: np.ndarray
    span_len: np.ndarray
    position_offsets: np.ndarray
    span_ids: np.ndarray | None
    kv_indices: torch.Tensor

    @property
    def num_queries(self) -> int:
        return int(self.qo_indptr[-1])

    @property
    def is_decode(self) -> bool:
        """Whether each request has one row, and spans are as they were stored."""
        return self.span_ids is not None

    @property
    def shares_spans(self) -> bool:
        """Whether several requests hold the same keys."""
        return self.span_ids is not None and int(self.span_ids.max()) + 1 < len(self.span_ids)


class PlanBuilder:
    """Collects the query segments of a pass that computes prompts, request by request.

    A request is named by ``row_start``, where its row begins in ``kv_indices``.
    """

    def __init__(self) -> None:
        self._qo_indptr = [0]
        self._span_indptr = [0]
        self._spans: list[Span] = []

    def add_plain(self, row_start: int, seq_len: int, num_queries: int) -> None:
        """A request without documents: causal attention over its row."""
        self._add_segment(num_queries, [], Span(row_start, seq_len, 0))

    def add_prompt(
        self,
        row_start: int,
        seq_len: int,
        num_queries: int,
        layout: PromptLayout,
        detached: Mapping[int | None, int],
    ) -> None:
        """A request with documents: the last ``num_queries`` of its ``seq_len`` places.

        Args:
            row_start: start of the request's row.
            seq_len: places of the row that hold keys, those being computed included.
            num_queries: places computed in this pass.
            layout: where the prompt's segments lie in the row.
            detached: where ``kv_indices`` holds the slots of what the row does not: of the
                sink, if the layout has one, under None; of a document's head, which its
                tail must see to be computed, under the tail's segment.
        """
        first = seq_len - num_queries
        for piece in layout.pieces:
            # What is generated continues the last piece.
            end = seq_len if piece is layout.pieces[-1] else min(piece.end, seq_len)
            start = max(piece.start, first)
            if start >= end:
                continue
            before = _shifted(layout.spans_before(piece), row_start)
            if layout.is_document[piece.segment]:
                if layout.head(piece.segment):
                    before.insert(0, Span(detached[piece.segment], layout.head(piece.segment), 0))
                if None in detached:
                    before.insert(0, Span(detached[None], 1, 0))
            elif layout.text_sees_sink:
                # Stored at position 0, seen as if it stood at -1.
                before.insert(0, Span(detached[None], 1, -1))
            own = Span(row_start + piece.start, end - piece.start, 0)
            self._add_segment(end - start, before, own)

    def add_detached(
        self,
        row_start: int,
        num_queries: int,
        layout: PromptLayout,
        detached: Mapping[int | None, int],
        segment: int | None,
    ) -> None:
        """Query rows that compute the last tokens of what a request's row does not hold.

        Args:
            row_start: start of the request's row.
            num_queries: how many.
            layout: where the prompt's segments lie in the row.
            detached: as of :meth:`add_prompt`.
            segment: which of them. A sink sees itself; a head its context too.
        """
        before: list[Span] = []
        length = 1
        if segment is not None:
            length = layout.head(segment)
            before = _shifted(layout.context_spans(), row_start)
            if None in detached:
                before.append(Span(detached[None], 1, 0))
        self._add_segment(num_queries, before, Span(detached[segment], length, 0))

    def build(self, kv_indices: torch.Tensor) -> AttentionPlan:
        starts, lengths, offsets = zip(*self._spans, strict=True)
        return AttentionPlan(
            qo_indptr=np.array(self._qo_indptr, np.int32),
            span_indptr=np.array(self._span_indptr, np.int32),
            span_start=np.array(starts, np.int64),
            span_len=np.array(lengths, np.int32),
            position_offsets=np.array(offsets, np.int32),
            span_ids=None,
            kv_indices=kv_indices,
        )

    def _add_segment(self, num_queries: int, before: list[Span], own: Span) -> None:
        self._spans += (*before, own)
        self._span_indptr.append(len(self._spans))
        self._qo_indptr.append(self._qo_indptr[-1] + num_queries)


def _shifted(spans: Sequence[Span], row_start: int) -> list[Span]:
    return [Span(row_start + start, length, offset) for start, length, offset in spans]


@dataclass(frozen=True)
class DecodeSpans:
    """The spans of one request while it decodes, fixed but for the length of the last.

    Attributes:
        start: int64 ``[n]``, first place of each span in the request's row; -1 stands for
            the place of its sink.
        length: int32 ``[n]``; of the last span, which grows, 0.
        position_offset: int32 ``[n]``.
        key: int64 ``[n]``: spans of equal key and length, in whatever request, hold the
            same slots.
    """

    start: np.ndarray
    length: np.ndarray
    position_offset: np.ndarray
    key: np.ndarray


_private_keys = count(-1, -1)


def decode_spans(
    layout: PromptLayout | None, segment_ids: Sequence[int | None] = (), num_stored: int = 0
) -> DecodeSpans:
    """Spans of a request that decodes; ``layout`` None: a prompt without documents.

    Args:
        layout: of a prompt with documents.
        segment_ids: for each segment, a number below 2**31 that names the slots of its
            tokens that are stored, such as that of the tree's node that ends where they
            do; None where it has none.
        num_stored: places of the row whose slots are the tree's. The others are nobody
            else's yet: a step is planned before what the pass before it computed is stored.
    """
    if layout is None:
        spans, keys = [Span(0, 0, 0)], [next(_private_keys)]
    else:
        *before, own = layout.pieces
        own_start = own.start
        if any(layout.heads):
            # Heads are many and short. Where they stand in a row, they are read in one go.
            while before and _is_computed_text(layout, before[-1], own_start):
                own_start = before.pop().start
        stored = [0] * len(layout.lengths)
        for piece in layout.pieces:
            stored[piece.segment] += max(min(piece.end, num_stored) - piece.start, 0)
        spans, keys = [], []
        for piece in before:
            spans.append(Span(piece.start, piece.length, layout.position_offset(piece.segment)))
            named = segment_ids[piece.segment] if piece.end <= num_stored else None
            # Segments that end in one node may begin at different depths: so the place is
            # counted from the node's end.
            from_end = stored[piece.segment] - piece.offset
            keys.append(next(_private_keys) if named is None else named << 32 | from_end)
        if layout.text_sees_sink:
            spans.append(Span(-1, 1, -1))
            keys.append(next(_private_keys))
        spans.append(Span(own_start, 0, 0))
        keys.append(next(_private_keys))
    starts, lengths, offsets = zip(*spans, strict=True)
    return DecodeSpans(
        start=np.array(starts, np.int64),
        length=np.array(lengths, np.int32),
        position_offset=np.array(offsets, np.int32),
        key=np.array(keys, np.int64),
    )


def _is_computed_text(layout: PromptLayout, piece: Piece, end: int) -> bool:
    """Whether a piece is the request's own text and ends at this place of the row."""
    is_computed = piece.start >= layout.num_cached
    return is_computed and not layout.is_document[piece.segment] and piece.end == end


def decode_plan(
    requests: Sequence[DecodeSpans], seq_lens: Sequence[int], width: int, kv_indices: torch.Tensor
) -> AttentionPlan:
    """The plan of a step: one query row per request.

    Args:
        requests: each request's spans.
        seq_lens: each request's keys, the one being computed included.
        width: entries of a row in ``kv_indices``; the last is the sink's.
        kv_indices: as in :class:`AttentionPlan`.
    """
    counts = [len(r.start) for r in requests]
    row = np.repeat(np.arange(len(requests)), counts)
    start = np.concatenate([r.start for r in requests])
    length = np.concatenate([r.length for r in requests])
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    own = indptr[1:] - 1
    length[own] = np.asarray(seq_lens) - start[own]
    start = np.where(start < 0, width - 1, start) + row * width
    key = np.concatenate([r.key for r in requests])
    key[own] = np.iinfo(np.int64).min + np.arange(len(own))  # nobody else's
    _, span_ids = np.unique(key, return_inverse=True)
    return AttentionPlan(
        qo_indptr=np.arange(len(requests) + 1, dtype=np.int32),
        span_indptr=indptr,
        span_start=start,
        span_len=length,
        position_offsets=np.concatenate([r.position_offset for r in requests]),
        span_ids=span_ids,
        kv_indices=kv_indices,
    )
