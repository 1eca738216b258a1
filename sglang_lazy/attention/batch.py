"""From SGLang's batch to an attention plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from sglang_lazy.attention.upload import upload
from sglang_lazy.cache.detached import DetachedRun
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.cache.request_state import RequestState, admitted_state

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

_PLAN = "sglang_lazy_plan"


def plan_batch(
    forward_batch: ForwardBatch, batch: ScheduleBatch, cache: LazyPrefixCache
) -> list[tuple[int, int]]:
    """Plan a pass with at least one request that holds documents, and attach the plan.

    Where prompts are computed, also sets their tokens' positions, and appends rows for
    detached tokens that this pass must compute.

    Returns:
        The appended rows, in order: index of the request that they belong to, and their number.
    """
    states = [admitted_state(req) for req in batch.reqs]
    req_to_token = cache.req_to_token_pool.req_to_token
    appended: list[tuple[int, DetachedRun]] = []
    if forward_batch.forward_mode.is_decode():
        plan = _plan_decode(forward_batch, batch, req_to_token, states)
    else:
        plan, appended = _plan_extend(forward_batch, batch, req_to_token, states)
    # A declared field: it survives the copies that SGLang makes of a ForwardBatch.
    forward_batch.model_specific_states = {_PLAN: plan}
    return [(i, run.num_missing) for i, run in appended]


_PLAIN_SPANS = decode_spans(None)


def _decode_spans_of(state: RequestState, num_stored: int) -> DecodeSpans:
    if state.decode_spans is None:
        ids = [None if node is None else node.id for node in state.bundle.nodes]
        state.decode_spans = decode_spans(state.layout, ids, num_stored)
    spans: DecodeSpans = state.decode_spans
    return spans


def _plan_decode(
    forward_batch: ForwardBatch,
    batch: ScheduleBatch,
    req_to_token: torch.Tensor,
    states: list[RequestState | None],
) -> AttentionPlan:
    seq_lens = batch.seq_lens_cpu.tolist()
    # One column more than the longest row, for the slot of a sink.
    width = max(seq_lens) + 1
    rows = req_to_token[forward_batch.req_pool_indices, :width]
    for i, state in enumerate(states):
        if state is not None and state.sink is not None:
            rows[i, -1] = state.sink.slots[0]
    spans = [
        _PLAIN_SPANS if state is None else _decode_spans_of(state, req.cache_protected_len)
        for state, req in zip(states, batch.reqs, strict=True)
    ]
    return decode_plan(spans, seq_lens, width, rows.view(-1))


def _plan_extend(
    forward_batch: ForwardBatch,
    batch: ScheduleBatch,
    req_to_token: torch.Tensor,
    states: list[RequestState | None],
) -> tuple[AttentionPlan, list[tuple[int, DetachedRun]]]:
    seq_lens, query_lens = batch.seq_lens_cpu.tolist(), list(batch.extend_lens)
    used = [
        {} if state is None else state.detached_in(n - k, n)
        for state, n, k in zip(states, seq_lens, query_lens, strict=True)
    ]
    longest = max(seq_lens)
    rows = _with_columns(req_to_token[forward_batch.req_pool_indices, :longest], used)
    width = rows.shape[1]

    builder = PlanBuilder()
    positions: list[np.ndarray] = []
    appended: list[tuple[int, DetachedRun]] = []
    for i, (state, seq_len, n) in enumerate(zip(states, seq_lens, query_lens, strict=True)):
        if state is None:
            builder.add_plain(i * width, seq_len, n)
            positions.append(np.arange(seq_len - n, seq_len))
            continue
        assert state.layout is not None
        # Local positions inside documents.
        positions.append(state.layout.positions(seq_len - n, seq_len))
        builder.add_prompt(
            i * width, seq_len, n, state.layout, _places(used[i], i * width + longest)
        )
    # They come last, so that every index which SGLang derives from the requests' lengths
    # stays right.
    for i, (state, runs) in enumerate(zip(states, used, strict=True)):
        for segment, run in runs.items():
            if not run.take_missing():
                continue
            assert state is not None and state.layout is not None
            places = _places(runs, i * width + longest)
            builder.add_detached(i * width, run.num_missing, state.layout, places, segment)
            positions.append(run.missing_positions())
            appended.append((i, run))
    forward_batch.positions = upload(np.concatenate(positions), forward_batch.positions.device)
    if appended:
        _append_rows(forward_batch, [run for _, run in appended])
    return builder.build(rows.view(-1)), appended


def _with_columns(
    rows: torch.Tensor, used: Sequence[Mapping[int | None, DetachedRun]]
) -> torch.Tensor:
    """The rows, and behind them the slots of each request's detached tokens, run by run."""
    width = max(sum(len(run.tokens) for run in runs.values()) for runs in used)
    if not width:
        return rows
    columns = rows.new_zeros(len(rows), width)
    for column, runs in zip(columns, used, strict=True):
        if runs:
            slots = torch.cat([run.slots for run in runs.values()])
            column[: len(slots)] = slots
    return torch.cat((rows, columns), dim=1)


def _places(runs: Mapping[int | None, DetachedRun], first: int) -> dict[int | None, int]:
    """Where each run begins, if the first one begins at ``first``."""
    places = {}
    for segment, run in runs.items():
        places[segment] = first
        first += len(run.tokens)
    return places


def plan_of(forward_batch: Any) -> AttentionPlan | None:
    """The plan of a pass; None where no request holds documents."""
    states = getattr(forward_batch, "model_specific_states", None)
    return states.get(_PLAN) if isinstance(states, dict) else None


def _append_rows(forward_batch: ForwardBatch, runs: Sequence[DetachedRun]) -> None:
    """Compute the missing tokens of runs too, behind all others; nobody reads their logits."""
    ids = np.concatenate([run.tokens[run.num_cached :] for run in runs])
    input_ids = upload(ids, forward_batch.input_ids.device).to(forward_batch.input_ids.dtype)
    slots = [run.slots[run.num_cached :].to(forward_batch.out_cache_loc) for run in runs]
    forward_batch.input_ids = torch.cat((forward_batch.input_ids, input_ids))
    forward_batch.out_cache_loc = torch.cat((forward_batch.out_cache_loc, *slots))
    forward_batch.extend_num_tokens += len(ids)
    forward_batch.num_token_non_padded_cpu += len(ids)
    if forward_batch.num_token_non_padded is not None:
        forward_batch.num_token_non_padded = forward_batch.num_token_non_padded + len(ids)
