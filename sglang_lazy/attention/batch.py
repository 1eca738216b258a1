"""From SGLang's batch to an attention plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sglang_lazy.attention.plan import (
    AttentionPlan,
    DecodeSpans,
    PlanBuilder,
    decode_plan,
    decode_spans,
)
from sglang_lazy.cache.prefix_cache import LazyPrefixCache, RequestState, admitted_state

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

_PLAN = "sglang_lazy_plan"


def plan_batch(forward_batch: ForwardBatch, batch: ScheduleBatch, cache: LazyPrefixCache) -> None:
    """Plan a pass with at least one request that holds documents, and attach the plan.

    Where prompts are computed, also sets their tokens' positions, and appends a row for
    each sink token that this pass must write.
    """
    seq_lens = batch.seq_lens_cpu.tolist()
    # One column more than the longest row, for the slot of a sink.
    width = max(seq_lens) + 1
    rows = cache.req_to_token_pool.req_to_token[forward_batch.req_pool_indices, :width]
    states = [admitted_state(req) for req in batch.reqs]
    for i, state in enumerate(states):
        if state is not None and state.sink_slot is not None:
            rows[i, -1] = state.sink_slot[0]
    if forward_batch.forward_mode.is_decode():
        spans = [_PLAIN_SPANS if state is None else _decode_spans_of(state) for state in states]
        plan = decode_plan(spans, seq_lens, width, rows.view(-1))
    else:
        plan = _plan_extend(forward_batch, batch, cache, states, rows)
    # A declared field: it survives the copies that SGLang makes of a ForwardBatch.
    forward_batch.model_specific_states = {_PLAN: plan}


_PLAIN_SPANS = decode_spans(None)


def _decode_spans_of(state: RequestState) -> DecodeSpans:
    if state.decode_spans is None:
        ids = [None if node is None else node.id for node in state.bundle.nodes]
        state.decode_spans = decode_spans(state.layout, ids)
    spans: DecodeSpans = state.decode_spans
    return spans


def _plan_extend(
    forward_batch: ForwardBatch,
    batch: ScheduleBatch,
    cache: LazyPrefixCache,
    states: list[RequestState | None],
    rows: torch.Tensor,
) -> AttentionPlan:
    width = rows.shape[1]
    seq_lens, query_lens = batch.seq_lens_cpu.tolist(), list(batch.extend_lens)
    builder = PlanBuilder()
    positions: list[np.ndarray] = []
    unwritten: list[tuple[int, int, int]] = []  # slot, its place in `rows`, token id
    for i, (state, seq_len, n) in enumerate(zip(states, seq_lens, query_lens, strict=True)):
        if state is None:
            builder.add_plain(i * width, seq_len, n)
            positions.append(np.arange(seq_len - n, seq_len))
            continue
        assert state.layout is not None
        # Local positions inside documents.
        positions.append(state.layout.positions(seq_len - n, seq_len))
        if state.sink_slot is None:
            builder.add_prompt(i * width, seq_len, n, state.layout, None)
            continue
        sink_at = (i + 1) * width - 1
        builder.add_prompt(i * width, seq_len, n, state.layout, sink_at)
        if cache.take_unwritten_sink(state.sink_slot):
            unwritten.append((int(state.sink_slot), sink_at, state.prompt.context[0]))
    forward_batch.positions = torch.from_numpy(np.concatenate(positions)).to(
        forward_batch.positions
    )
    for slot, sink_at, token_id in unwritten:
        _append_row(forward_batch, slot, token_id)
        builder.add_sink(sink_at)
    return builder.build(rows.view(-1))


def plan_of(forward_batch: Any) -> AttentionPlan | None:
    """The plan of a pass; None where no request holds documents."""
    states = getattr(forward_batch, "model_specific_states", None)
    return states.get(_PLAN) if isinstance(states, dict) else None


def _append_row(forward_batch: ForwardBatch, slot: int, token_id: int) -> None:
    """Compute one more token, at position 0, whose logits nobody reads.

    It comes last, so that every index which SGLang derives from the requests' lengths
    stays right.
    """

    def append(tensor: torch.Tensor, value: int) -> torch.Tensor:
        return torch.cat((tensor, tensor.new_tensor([value])))

    forward_batch.input_ids = append(forward_batch.input_ids, token_id)
    forward_batch.positions = append(forward_batch.positions, 0)
    forward_batch.out_cache_loc = append(forward_batch.out_cache_loc, slot)
    forward_batch.extend_num_tokens += 1
    forward_batch.num_token_non_padded_cpu += 1
    if forward_batch.num_token_non_padded is not None:
        forward_batch.num_token_non_padded = forward_batch.num_token_non_padded + 1
