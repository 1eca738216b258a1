"""The fused kernel equals its float32 reference on query segments over spans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from _pytest.mark import ParameterSet

from sglang_lazy.kernels.config import LaunchConfig
from sglang_lazy.kernels.extend import build_extend_plan, extend_attention
from sglang_lazy.kernels.plan_buffers import PlanBuffers
from sglang_lazy.kernels.planner import plan_extend

from .problems import Problem, Shape, make_problem, relative_error

SMALL = LaunchConfig(segment_m=32, segment_n=32, unit_cost=1.0, programs_per_sm=1)
DTYPES = [
    pytest.param(torch.float32, id="fp32"),
    pytest.param(torch.float16, id="fp16"),
    # The interpreter multiplies bfloat16 wrongly.
    pytest.param(torch.bfloat16, id="bf16", marks=pytest.mark.gpu),
]
KV_DTYPES = [
    pytest.param(torch.float8_e4m3fn, id="e4m3"),
    pytest.param(torch.float8_e5m2, id="e5m2"),
]

# A question over documents at offsets of both signs, one of them twice; a document that is
# being computed; a plain continuation; one row; a segment without rows.
MIXED = [
    (11, (("text", 40, 0), ("a", 33, 40), ("b", 64, -1), ("a", 33, 137), ("question", 35, 0))),
    (0, (("a", 33, 0),)),
    (9, (("sink", 1, 0), ("new", 9, 0))),
    (3, (("plain", 69, 0),)),
    (1, (("b", 64, 300), ("own", 1, 0))),
]
SHAPES = {
    "llama": Shape(),
    "mha": Shape(num_qo_heads=3, num_kv_heads=3),
    "group_3": Shape(num_qo_heads=9, num_kv_heads=3),
    "group_7": Shape(num_qo_heads=7, num_kv_heads=1),
    "interleaved": Shape(is_neox_style=False),
    "partial": Shape(head_dim=80, rotary_dim=32),
    "partial_interleaved": Shape(head_dim=64, rotary_dim=32, is_neox_style=False),
    "d_80": Shape(head_dim=80),
    "d_96": Shape(head_dim=96),
    "d_128": Shape(head_dim=128),
    "d_192": Shape(head_dim=192, num_qo_heads=2, num_kv_heads=1),
    "d_256": Shape(head_dim=256, num_qo_heads=2, num_kv_heads=1),
    "cap": Shape(logit_cap=3.0),
    "scales": Shape(k_scale=0.7, v_scale=1.9),
}
ROUNDED = ("llama", "partial", "d_96", "cap")


def solve(
    problem: Problem, device: torch.device, plan: PlanBuffers | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """With tiles so small that there are many, unless ``plan`` says otherwise."""
    problem = problem.to(device)
    if plan is None:
        plan = plan_for(problem, SMALL)
    out, lse = problem.empty()
    extend_attention(
        problem.q,
        problem.k_buffer,
        problem.v_buffer,
        out,
        *problem.metadata(),
        problem.kv_indices,
        problem.cos_sin_cache,
        lse=lse,
        plan=plan,
        **problem.options,
    )
    return out.cpu(), lse.cpu()


def plan_for(problem: Problem, config: LaunchConfig | None) -> PlanBuffers:
    return build_extend_plan(
        *problem.metadata(),
        num_qo_heads=problem.q.shape[1],
        num_kv_heads=problem.k_buffer.shape[1],
        head_dim=problem.q.shape[2],
        q_dtype=problem.q.dtype,
        kv_dtype=problem.k_buffer.dtype,
        device=problem.q.device,
        config=config,
    )


def check(problem: Problem, device: torch.device, plan: PlanBuffers | None = None) -> None:
    out, lse = solve(problem, device, plan)
    wanted, wanted_lse = problem.expected()
    assert relative_error(out, wanted) <= problem.tolerance()
    assert relative_error(lse, wanted_lse) <= problem.tolerance()


def shapes_and_dtypes() -> Iterator[ParameterSet]:
    """All of them on a GPU; the interpreter is slow, and float32 says most there."""
    for name in SHAPES:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            here = dtype == torch.float32 or (dtype == torch.float16 and name in ROUNDED)
            marks = () if here else pytest.mark.gpu
            yield pytest.param(name, dtype, id=f"{name}-{dtype}".replace("torch.", ""), marks=marks)


@pytest.mark.parametrize(("name", "dtype"), shapes_and_dtypes())
def test_matches_reference(name: str, dtype: torch.dtype, device: torch.device) -> None:
    check(make_problem(MIXED, SHAPES[name], dtype, extra_rows=2), device)


@pytest.mark.parametrize("dtype", DTYPES)
def test_default_config(dtype: torch.dtype, device: torch.device) -> None:
    problem = make_problem(MIXED, Shape(head_dim=128), dtype)
    check(problem, device, plan_for(problem.to(device), None))


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_quantised_kv(dtype: torch.dtype, kv_dtype: torch.dtype, device: torch.device) -> None:
    check(make_problem(MIXED, SHAPES["scales"], dtype, kv_dtype), device)


def test_int32_slots(device: torch.device) -> None:
    check(make_problem(MIXED, Shape(), torch.float16, index_dtype=torch.int32), device)


def test_strided_tensors(device: torch.device) -> None:
    problem = make_problem(MIXED, Shape(), torch.float16)
    qkv = torch.randn(len(problem.q), 8, 64).half()
    pool = torch.stack((problem.k_buffer, problem.v_buffer), 2)
    problem = replace(problem, q=qkv[:, 2:6], k_buffer=pool[:, :, 0], v_buffer=pool[:, :, 1])
    check(problem, device)


@pytest.mark.parametrize("num_sms", [1, 3, 40])
def test_splits_agree(num_sms: int, device: torch.device) -> None:
    problem = make_problem(MIXED, Shape(), torch.float32)
    metadata = (t.numpy() for t in problem.metadata())
    plan = plan_extend(*metadata, config=SMALL, group=2, num_kv_heads=2, num_sms=num_sms)
    assert (plan.num_partials > 0) == (num_sms > 1)
    out, _ = solve(problem, device, PlanBuffers.upload(plan, device))
    wanted, _ = problem.expected()
    assert relative_error(out, wanted) <= problem.tolerance()


def test_a_wrong_offset_shows(device: torch.device) -> None:
    problem = make_problem(MIXED, Shape(), torch.float16)
    offsets = problem.position_offsets.clone()
    offsets[1] += 1
    wanted, _ = problem.expected()
    out, _ = solve(replace(problem, position_offsets=offsets), device)
    assert relative_error(out, wanted) > 4 * problem.tolerance()


def test_rejects_what_it_does_not_take(device: torch.device) -> None:
    problem = make_problem(MIXED, Shape(), torch.float16)
    far = problem.position_offsets.clone()
    far[0] = 512
    with pytest.raises(ValueError, match="cos_sin_cache must have more than 512 positions"):
        solve(replace(problem, position_offsets=far), device)
    with pytest.raises(ValueError, match="q must be float32 or float16 or bfloat16, got float64"):
        solve(replace(problem, q=problem.q.double()), device)
    with pytest.raises(ValueError, match="k_buffer must be float16 or .*, got float32"):
        solve(replace(problem, k_buffer=problem.k_buffer.float()), device)
    with pytest.raises(ValueError, match="kv_indices must be int32 or int64, got int16"):
        solve(replace(problem, kv_indices=problem.kv_indices.short()), device)


@pytest.mark.gpu
def test_addresses_beyond_32_bits(device: torch.device) -> None:
    """Rows of the pool lie so far apart that an element's offset does not fit an int32."""
    problem = make_problem(MIXED, Shape(num_kv_heads=1), torch.bfloat16)
    num_slots = len(problem.k_buffer)
    stride = (2**31 // (num_slots // 2) + 15) // 16 * 16
    far = []
    for near in (problem.k_buffer, problem.v_buffer):
        storage = torch.empty(num_slots * stride, dtype=near.dtype, device=device)
        view = storage.as_strided(near.shape, (stride, 64, 1))
        view.copy_(near)
        far.append(view)
    assert int(problem.kv_indices.max()) * stride > 2**31
    wanted, _ = problem.expected()
    tolerance = problem.tolerance()
    out, _ = solve(replace(problem, k_buffer=far[0], v_buffer=far[1]), device)
    assert relative_error(out, wanted) <= tolerance
