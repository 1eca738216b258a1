"""Rotate-and-gather equals its reference."""

from __future__ import annotations

import pytest
import torch

from sglang_lazy.kernels import reference
from sglang_lazy.kernels.rotate_gather import rotate_gather

from .problems import Shape, make_problem, relative_error

SHAPES = {
    "neox": Shape(),
    "interleaved": Shape(is_neox_style=False),
    "partial": Shape(head_dim=80, rotary_dim=32),
    "partial_interleaved": Shape(head_dim=96, rotary_dim=64, is_neox_style=False),
    "d_192": Shape(head_dim=192),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(torch.float32, id="fp32"),
        pytest.param(torch.float16, id="fp16"),
        pytest.param(torch.bfloat16, id="bf16", marks=pytest.mark.gpu),
    ],
)
def test_matches_reference(name: str, dtype: torch.dtype, device: torch.device) -> None:
    shape = SHAPES[name]
    problem = make_problem([(9, (("own", 9, 0),))], shape, dtype).to(device)
    rows = torch.tensor([8, 0, 3, 3, 7] * 5, device=device)
    offsets = torch.randint(-500, 500, (25,), dtype=torch.int32).to(device)
    offsets[4] = 0
    options = {"is_neox_style": shape.is_neox_style}
    args = (problem.q, rows, offsets, problem.cos_sin_cache)
    out = torch.full((25, *problem.q.shape[1:]), float("nan"), dtype=dtype, device=device)
    rotate_gather(*args, out=out, **options)
    wanted = torch.full(out.shape, float("nan"), device=device)
    reference.rotate_gather(*args, out=wanted, **options)
    rounding = relative_error(wanted.to(dtype), wanted)
    assert relative_error(out, wanted) <= 2 * rounding + 1e-6
    assert torch.equal(out[4], problem.q[7])


def test_nothing_to_gather(device: torch.device) -> None:
    problem = make_problem([(2, (("own", 2, 0),))], Shape(), torch.float32).to(device)
    none = torch.zeros(0, dtype=torch.int32, device=device)
    out = rotate_gather(problem.q, none, none, problem.cos_sin_cache, is_neox_style=True)
    assert out.shape == (0, 4, 64)


def test_rejects_wrong_dtypes(device: torch.device) -> None:
    problem = make_problem([(2, (("own", 2, 0),))], Shape(), torch.float32).to(device)
    rows = torch.zeros(1, dtype=torch.int64, device=device)
    with pytest.raises(ValueError, match="position_offsets must be int32, got int64"):
        rotate_gather(problem.q, rows, rows, problem.cos_sin_cache, is_neox_style=True)
