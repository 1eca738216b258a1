"""From SGLang's batch to an attention plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sglang_lazy.attention.plan import AttentionPlan, PlanBuilder
from sglang_lazy.cache.prefix_cache import LazyPrefixCache, admitted_state

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

_PLAN = "sglang_lazy_plan"


def plan_batch(forward_batch: ForwardBatch, batch: ScheduleBatch, cache: LazyPrefixCache) -> None:
    """Plan a pass with at least one request that holds documents.

    Sets the positions of prompt tokens, appends a row for each sink token that this
    pass must write, and attaches the plan.
    """
    seq_lens = batch.seq_lens_cpu.tolist()
    is_decode = forward_batch.forward_mode.is_decode()
    query_lens = [1] * len(batch.reqs) if is_decode else list(batch.extend_lens)
    builder = PlanBuilder()
    sinks: list[tuple[int, int]] = []  # slot, token id
    for req, seq_len, num_queries in zip(batch.reqs, seq_lens, query_lens, strict=True):
        row = cache.req_to_token_pool.req_to_token[req.req_pool_idx, :seq_len]
        state = admitted_state(req)
        if state is None:
            builder.add_plain(row, num_queries)
            continue
        assert state.layout is not None
        builder.add_prompt(row, num_queries, state.layout, state.sink_slot)
        if state.sink_slot is not None and cache.take_unwritten_sink(slot := int(state.sink_slot)):
            sinks.append((slot, state.prompt.context[0]))
    if not is_decode:
        forward_batch.positions = _positions(forward_batch, batch.reqs, seq_lens, query_lens)
        for slot, token_id in sinks:
            _append_row(forward_batch, builder, slot, token_id)
    plan = builder.build(forward_batch.seq_lens.device)
    # A declared field: it survives the copies that SGLang makes of a ForwardBatch.
    forward_batch.model_specific_states = {_PLAN: plan}


def plan_of(forward_batch: Any) -> AttentionPlan | None:
    """The plan of a pass; None where no request holds documents."""
    states = getattr(forward_batch, "model_specific_states", None)
    return states.get(_PLAN) if isinstance(states, dict) else None


def _positions(
    forward_batch: ForwardBatch, reqs: list[Req], seq_lens: list[int], query_lens: list[int]
) -> torch.Tensor:
    """Rotary positions of the pass's tokens; local ones inside documents."""
    positions = forward_batch.positions.clone()
    start = 0
    for req, seq_len, n in zip(reqs, seq_lens, query_lens, strict=True):
        state = admitted_state(req)
        if state is not None and state.layout is not None:
            computed = torch.from_numpy(state.layout.positions[seq_len - n : seq_len])
            positions[start : start + n] = computed.to(positions)
        start += n
    return positions


def _append_row(
    forward_batch: ForwardBatch, builder: PlanBuilder, slot: int, token_id: int
) -> None:
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
    builder.add_sink(forward_batch.out_cache_loc[-1:])
