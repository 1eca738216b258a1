"""Merging partial results equals its reference."""

from __future__ import annotations

import pytest
import torch

from sglang_lazy.kernels import reference
from sglang_lazy.kernels.merge_state import merge_state

from .problems import relative_error

COUNTS = [3, 1, 0, 9, 17]  # partial results of each merged row


def arguments(dtype: torch.dtype, head_dim: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    num_partials = sum(COUNTS) + 2
    partial_o = torch.randn(num_partials, 3, head_dim).to(dtype)
    partial_lse = 8 * torch.randn(num_partials, 3)
    partial_lse[1] = float("-inf")  # a part that saw no key
    indices = torch.randperm(num_partials)[: sum(COUNTS)].int()
    rows = torch.tensor([6, 0, 3, 5, 2], dtype=torch.int32)
    indptr = torch.tensor([0, *torch.tensor(COUNTS).cumsum(0)], dtype=torch.int32)
    return tuple(t.to(device) for t in (partial_o, partial_lse, rows, indptr, indices))


def outputs(dtype: torch.dtype, head_dim: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    out = torch.full((8, 3, head_dim), float("nan"), dtype=dtype, device=device)
    return out, torch.full((8, 3), float("nan"), device=device)


@pytest.mark.parametrize("head_dim", [64, 80])
@pytest.mark.parametrize("has_external", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
def test_matches_reference(
    dtype: torch.dtype, has_external: bool, head_dim: int, device: torch.device
) -> None:
    args = arguments(dtype, head_dim, device)
    external = {}
    if has_external:
        external = {
            "external_o": torch.randn(8, 3, head_dim).to(device, dtype),
            "external_lse": torch.randn(8, 3).to(device),
        }
    out, lse = outputs(dtype, head_dim, device)
    merge_state(*args, out, lse=lse, **external)
    wanted, wanted_lse = outputs(torch.float32, head_dim, device)
    reference.merge_state(*args, wanted, lse=wanted_lse, **external)
    # The one rounding that cannot be avoided, twice.
    rounding = relative_error(wanted.to(dtype), wanted)
    assert relative_error(out, wanted) <= 2 * rounding + 1e-6
    assert torch.equal(torch.isnan(out), torch.isnan(wanted))
    torch.testing.assert_close(lse, wanted_lse, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_count_on_the_device(device: torch.device) -> None:
    args = arguments(torch.float32, 64, device)
    count = torch.tensor([2], dtype=torch.int32, device=device)
    out, _ = outputs(torch.float32, 64, device)
    merge_state(*args, out, num_merge_rows=count)
    written = ~torch.isnan(out).any(-1).any(-1)
    assert written.nonzero().flatten().tolist() == [0, 6]


def test_rejects_wrong_shapes(device: torch.device) -> None:
    partial_o, partial_lse, *rest = arguments(torch.float32, 64, device)
    out, _ = outputs(torch.float32, 64, device)
    with pytest.raises(ValueError, match=r"partial_lse must have shape \(32, 3\), got \(31, 3\)"):
        merge_state(partial_o, partial_lse[1:], *rest, out)
    with pytest.raises(ValueError, match="external_o and external_lse must be given together"):
        merge_state(partial_o, partial_lse, *rest, out, external_o=out)
