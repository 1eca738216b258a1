"""Decoding equals its float32 reference, with and without spans that requests share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sglang_lazy.kernels.config import LaunchConfig
from sglang_lazy.kernels.decode import build_decode_plan, decode_attention
from sglang_lazy.kernels.plan_buffers import Capacity, PlanBuffers
from sglang_lazy.kernels.planner import HostPlan

from .problems import Problem, Shape, Spans, make_problem, relative_error

SMALL = LaunchConfig(
    segment_m=16,
    segment_n=32,
    item_m=16,
    item_n=32,
    unit_cost=1.0,
    programs_per_sm=1,
    min_item_keys=8,
)
DTYPES = [
    pytest.param(torch.float32, id="fp32"),
    pytest.param(torch.float16, id="fp16"),
    pytest.param(torch.bfloat16, id="bf16", marks=pytest.mark.gpu),
]

# Documents a, b, c in different orders and at different offsets; request 2 holds one twice,
# request 4 none that others hold. A sink token is shared, but too short to group.
BATCH: list[Spans] = [
    (("sink", 1, -1), ("a", 70, 3), ("b", 33, 73), ("t0", 9, 0)),
    (("sink", 1, -1), ("b", 33, 0), ("c", 64, 33), ("a", 70, 97), ("t1", 40, 0)),
    (("a", 70, 11), ("t2", 1, 0), ("a", 70, 82), ("t2'", 3, 0)),
    (("c", 64, -1), ("b", 33, 63), ("t3", 5, 0)),
    (("d", 65, 100), ("t4", 33, 0)),
]


def make_batch(batch: list[Spans], shape: Shape, dtype: torch.dtype, **kwargs: int) -> Problem:
    return make_problem([(1, spans) for spans in batch], shape, dtype, **kwargs)


def plan_for(
    problem: Problem, device: torch.device, config: LaunchConfig = SMALL, padded: int = 0
) -> HostPlan:
    return build_decode_plan(
        problem.span_indptr,
        problem.span_start,
        problem.span_len,
        problem.position_offsets,
        problem.kv_indices[problem.span_start],
        config,
        num_qo_heads=problem.q.shape[1],
        num_kv_heads=problem.k_buffer.shape[1],
        device=device,
        num_padded_rows=padded,
    )


def solve(
    problem: Problem, device: torch.device, plan: PlanBuffers | None
) -> tuple[torch.Tensor, torch.Tensor]:
    problem = problem.to(device)
    out, lse = problem.empty()
    decode_attention(
        problem.q,
        problem.k_buffer,
        problem.v_buffer,
        out,
        *problem.metadata()[1:],
        problem.kv_indices,
        problem.cos_sin_cache,
        lse=lse,
        plan=plan,
        **problem.options,
    )
    return out.cpu(), lse.cpu()


def check(problem: Problem, out: torch.Tensor, lse: torch.Tensor) -> None:
    wanted, wanted_lse = problem.expected()
    assert relative_error(out, wanted) <= problem.tolerance()
    assert relative_error(lse, wanted_lse) <= problem.tolerance()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_neox_style", [True, False], ids=["neox", "interleaved"])
def test_shared_documents(is_neox_style: bool, dtype: torch.dtype, device: torch.device) -> None:
    problem = make_batch(BATCH, Shape(is_neox_style=is_neox_style), dtype)
    plan = plan_for(problem, device)
    # Items: a (4 rows), b (3), c (2).
    assert len(plan.item_rows) == 9
    check(problem, *solve(problem, device, PlanBuffers.upload(plan, device)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_distinct_documents(dtype: torch.dtype, device: torch.device) -> None:
    problem = make_batch(BATCH, Shape(), dtype)
    plan = plan_for(problem, device, replace(SMALL, item_m=0))
    assert plan.num_items == 0
    check(problem, *solve(problem, device, PlanBuffers.upload(plan, device)))


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_default_config(dtype: torch.dtype, device: torch.device) -> None:
    problem = make_batch(BATCH, Shape(head_dim=128), dtype)
    check(problem, *solve(problem, device, None))


def test_more_rows_than_an_item_tile(device: torch.device) -> None:
    batch: list[Spans] = [(("a", 40, 2 * i), (f"t{i}", 1 + i, 0)) for i in range(11)]
    problem = make_batch(batch, Shape(), torch.float32)
    plan = plan_for(problem, device)
    assert plan.num_items > 1
    check(problem, *solve(problem, device, PlanBuffers.upload(plan, device)))


def test_keys_are_read_once() -> None:
    """All requests together read each document of several holders once per tile of rows."""
    problem = make_batch(BATCH, Shape(), torch.float32)
    plan = plan_for(problem, torch.device("cpu"))
    reads = np.zeros(len(problem.kv_indices), int)
    for unit in plan.units[: plan.num_items]:
        begin, end = unit[4], unit[5]
        start = plan.span_start[unit[2]]
        reads[start + begin : start + end] += 1
    assert reads.max() == 1


def test_padded_rows_become_zero(device: torch.device) -> None:
    problem = make_batch(BATCH, Shape(), torch.float32, extra_rows=3)
    plan = plan_for(problem, device, padded=3)
    out, lse = solve(problem, device, PlanBuffers.upload(plan, device))
    assert torch.equal(out[-3:], torch.zeros_like(out[-3:]))
    assert torch.equal(lse[-3:], torch.full_like(lse[-3:], float("-inf")))
    out[-3:] = lse[-3:] = float("nan")
    check(problem, out, lse)


def test_persistent_buffers(device: torch.device) -> None:
    """As in a CUDA graph: buffers and grid stay, plans of any size come and go."""
    capacity = Capacity(units=200, item_rows=40, spans=80, merge_rows=12, partials=300)
    buffers = PlanBuffers(SMALL, capacity, device)
    addresses = [t.data_ptr() for t in vars(buffers).values() if isinstance(t, torch.Tensor)]
    for batch in (BATCH, BATCH[:1], BATCH[::-1]):
        problem = make_batch(batch, Shape(), torch.float32)
        buffers.load(plan_for(problem, device))
        check(problem, *solve(problem, device, buffers))
    assert addresses == [
        t.data_ptr() for t in vars(buffers).values() if isinstance(t, torch.Tensor)
    ]


def test_a_plan_that_does_not_fit() -> None:
    problem = make_batch(BATCH, Shape(), torch.float32)
    cpu = torch.device("cpu")
    plan = plan_for(problem, cpu)
    small = PlanBuffers(SMALL, replace(Capacity.of(plan), item_rows=8), cpu)
    with pytest.raises(ValueError, match="item_rows must be at most the capacity 8, got 9"):
        small.load(plan)
    other = PlanBuffers(replace(SMALL, segment_n=64), Capacity.of(plan), cpu)
    with pytest.raises(ValueError, match="plan must be cut for .*segment_n=64"):
        other.load(plan)


@pytest.mark.gpu
def test_cuda_graph(device: torch.device) -> None:
    """One capture, many plans; no wait for the device while a plan is loaded."""
    shape = Shape(num_qo_heads=8, num_kv_heads=2, head_dim=128)
    first = make_batch(BATCH, shape, torch.bfloat16).to(device)
    buffers = PlanBuffers(SMALL, Capacity(300, 60, 100, 12, 400), device)
    buffers.load(plan_for(first.to(torch.device("cpu")), device))
    out, lse = first.empty()

    def step() -> None:
        decode_attention(
            first.q,
            first.k_buffer,
            first.v_buffer,
            out,
            *first.metadata()[1:],
            first.kv_indices,
            first.cos_sin_cache,
            lse=lse,
            plan=buffers,
            **first.options,
        )

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for requests in ([0, 1, 2, 3, 4], [4, 3], [2, 0, 1]):
        problem = make_batch([BATCH[i] for i in requests], shape, torch.bfloat16)
        rows, slots = len(problem.q), len(problem.k_buffer)
        plan = plan_for(problem, device)
        torch.cuda.set_sync_debug_mode("error")
        try:
            buffers.load(plan)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        first.q[:rows] = problem.q.to(device)
        first.k_buffer[:slots] = problem.k_buffer.to(device)
        first.v_buffer[:slots] = problem.v_buffer.to(device)
        first.kv_indices[: len(problem.kv_indices)] = problem.kv_indices.to(device)
        out.fill_(float("nan"))
        graph.replay()
        check(problem, out[:rows].cpu(), lse[:rows].cpu())
        assert torch.isnan(out[rows:]).all()
