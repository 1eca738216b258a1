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
        span_start: int64 ``[num_spans]``, offset of each span in ``kv_indices``.
        span_len: int32 ``[num_spans]``.
        position_offsets: int32 ``[num_spans]``, Δ of each span.
        kv_indices: int64 ``[num_keys]``, slots of every request's row, on the device.
    """

    qo_indptr: torch.Tensor
    span_indptr: torch.Tensor
    span_start: torch.Tensor
    span_len: torch.Tensor
    position_offsets: torch.Tensor
    kv_indices: torch.Tensor


class PlanBuilder:
    """Collects a batch's query segments, request by request, in the order of its rows."""

    def __init__(self) -> None:
        self._qo_indptr = [0]
        self._span_indptr = [0]
        self._spans: list[Span] = []
        self._rows: list[torch.Tensor] = []
        self._num_keys = 0

    def add_plain(self, row: torch.Tensor, num_queries: int) -> None:
        """A request without documents: causal attention over its row, int ``[seq_len]``."""
        base = self._add_row(row)
        self._add_segment(num_queries, [], Span(0, len(row), 0), base)

    def add_prompt(
        self,
        row: torch.Tensor,
        num_queries: int,
        layout: PromptLayout,
        sink_slot: torch.Tensor | None,
    ) -> None:
        """A request with documents: its last ``num_queries`` places are computed.

        Args:
            row: int ``[seq_len]``, the request's slots, those being computed included.
            num_queries: places computed in this pass; 1 when decoding.
            layout: where the prompt's segments lie in the row.
            sink_slot: int ``[1]``, slot of the detached sink, where the layout has one.
        """
        seq_len = len(row)
        first = seq_len - num_queries
        base = self._add_row(row)
        sink = None
        if sink_slot is not None:
            self._add_row(sink_slot)
            sink = Span(seq_len, 1, 0)
        for piece in layout.pieces:
            # What is generated continues the last piece.
            end = seq_len if piece is layout.pieces[-1] else min(piece.end, seq_len)
            start = max(piece.start, first)
            if start >= end:
                continue
            before = layout.spans_before(piece)
            if sink is not None:
                if layout.is_document[piece.segment]:
                    before = [sink, *before]
                elif layout.text_sees_sink:
                    # Stored at position 0, seen as if it stood at -1.
                    before = [sink._replace(position_offset=-1), *before]
            own = Span(piece.start, end - piece.start, 0)
            self._add_segment(end - start, before, own, base)

    def add_sink(self, slot: torch.Tensor) -> None:
        """A row that encodes the sink token: it sees itself only. ``slot``: int ``[1]``."""
        self._add_segment(1, [], Span(0, 1, 0), self._add_row(slot))

    def build(self, device: torch.device | str) -> AttentionPlan:
        def column(values: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        starts, lengths, offsets = zip(*self._spans, strict=True)
        return AttentionPlan(
            qo_indptr=column(self._qo_indptr, torch.int32),
            span_indptr=column(self._span_indptr, torch.int32),
            span_start=column(starts, torch.int64),
            span_len=column(lengths, torch.int32),
            position_offsets=column(offsets, torch.int32),
            kv_indices=torch.cat(self._rows).to(device, torch.int64),
        )

    def _add_row(self, row: torch.Tensor) -> int:
        base = self._num_keys
        self._rows.append(row)
        self._num_keys += len(row)
        return base

    def _add_segment(self, num_queries: int, before: list[Span], own: Span, base: int) -> None:
        self._spans += [s._replace(start=s.start + base) for s in (*before, own)]
        self._span_indptr.append(len(self._spans))
        self._qo_indptr.append(self._qo_indptr[-1] + num_queries)
