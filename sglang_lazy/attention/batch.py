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
    # One column more than the longest row, for the slot of a sink.
    width = max(seq_lens) + 1
    rows = cache.req_to_token_pool.req_to_token[forward_batch.req_pool_indices, :width]
    builder = PlanBuilder()
    unwritten: list[tuple[int, int, int]] = []  # slot, its place in `rows`, token id
    for i, req in enumerate(batch.reqs):
        state = admitted_state(req)
        if state is None:
            builder.add_plain(i * width, seq_lens[i], query_lens[i])
            continue
        assert state.layout is not None
        sink_at = None
        if state.sink_slot is not None:
            rows[i, -1] = state.sink_slot[0]
            sink_at = (i + 1) * width - 1
            if not is_decode and cache.take_unwritten_sink(state.sink_slot):
                unwritten.append((int(state.sink_slot), sink_at, state.prompt.context[0]))
        builder.add_prompt(i * width, seq_lens[i], query_lens[i], state.layout, sink_at)
    if not is_decode:
        forward_batch.positions = _positions(forward_batch, batch.reqs, seq_lens, query_lens)
        for slot, sink_at, token_id in unwritten:
            _append_row(forward_batch, slot, token_id)
            builder.add_sink(sink_at)
    plan = builder.build(rows.view(-1))
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
