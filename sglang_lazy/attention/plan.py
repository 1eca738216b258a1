"""Ragged metadata of one forward pass, shared by all layers (docs/design.md, "One pass")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sglang_lazy.cache.layout import PromptLayout, Span


@dataclass(frozen=True)
class AttentionPlan:
    """Query segments and the key spans they attend to.

    Attributes:
        qo_indptr: int32 ``[num_segments + 1]``, query rows of each segment.
        span_indptr: int32 ``[num_segments + 1]``, spans of each segment; the last
            span of a segment is its own and causal.
        span_start: int64 ``[num_spans]``, first entry of each span in ``kv_indices``.
        span_len: int32 ``[num_spans]``.
        position_offsets: int32 ``[num_spans]``, Δ of each span.
        kv_indices: int32 ``[num_keys]``, slots, on the device: the requests' rows of
            ``req_to_token`` one after the other. A copy, since SGLang's scheduler may
            give a row to another request while the pass still runs.
    """

    qo_indptr: torch.Tensor
    span_indptr: torch.Tensor
    span_start: torch.Tensor
    span_len: torch.Tensor
    position_offsets: torch.Tensor
    kv_indices: torch.Tensor


class PlanBuilder:
    """Collects a batch's query segments, request by request, in the order of its rows.

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
        sink_at: int | None,
    ) -> None:
        """A request with documents: the last ``num_queries`` of its ``seq_len`` places.

        Args:
            row_start: start of the request's row.
            seq_len: places of the row that hold keys, those being computed included.
            num_queries: places computed in this pass; 1 when decoding.
            layout: where the prompt's segments lie in the row.
            sink_at: where ``kv_indices`` holds the slot of the detached sink, if the
                layout has one.
        """
        first = seq_len - num_queries
        for piece in layout.pieces:
            # What is generated continues the last piece.
            end = seq_len if piece is layout.pieces[-1] else min(piece.end, seq_len)
            start = max(piece.start, first)
            if start >= end:
                continue
            before = [
                span._replace(start=row_start + span.start) for span in layout.spans_before(piece)
            ]
            if sink_at is not None:
                if layout.is_document[piece.segment]:
                    before.insert(0, Span(sink_at, 1, 0))
                elif layout.text_sees_sink:
                    # Stored at position 0, seen as if it stood at -1.
                    before.insert(0, Span(sink_at, 1, -1))
            own = Span(row_start + piece.start, end - piece.start, 0)
            self._add_segment(end - start, before, own)

    def add_sink(self, sink_at: int) -> None:
        """A query row that encodes a sink token: it sees itself only."""
        self._add_segment(1, [], Span(sink_at, 1, 0))

    def build(self, kv_indices: torch.Tensor) -> AttentionPlan:
        def column(values: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=kv_indices.device)

        starts, lengths, offsets = zip(*self._spans, strict=True)
        return AttentionPlan(
            qo_indptr=column(self._qo_indptr, torch.int32),
            span_indptr=column(self._span_indptr, torch.int32),
            span_start=column(starts, torch.int64),
            span_len=column(lengths, torch.int32),
            position_offsets=column(offsets, torch.int32),
            kv_indices=kv_indices,
        )

    def _add_segment(self, num_queries: int, before: list[Span], own: Span) -> None:
        self._spans += (*before, own)
        self._span_indptr.append(len(self._spans))
        self._qo_indptr.append(self._qo_indptr[-1] + num_queries)
