"""Faults that the probe must find in what a model's layers give to attention."""

from collections.abc import Callable

import pytest
import torch

from sglang_lazy.attention.probe import _Call, _find_fault, _first_bend
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.kernels.rope import rotate_back

HEAD_DIM, MAX_POSITION = 16, 128
POSITIONS = [0, 1, 5, 100]
Change = Callable[[_Call], _Call]


def table(theta: float = 100.0) -> LayerRotary:
    frequency = theta ** -(torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angle = torch.arange(MAX_POSITION)[:, None] * frequency
    return LayerRotary(torch.cat((angle.cos(), angle.sin()), dim=-1), True)


def rotated(x: torch.Tensor, rotary: LayerRotary) -> torch.Tensor:
    return torch.stack([rotate_back(x, -p, *rotary) for p in POSITIONS])


def call(dtype: torch.dtype = torch.float32) -> _Call:
    """One layer: four query heads, two KV heads, one row for each position."""
    q, k, v = torch.randn(4, HEAD_DIM), torch.randn(2, HEAD_DIM), torch.randn(2, HEAD_DIM)
    rows = rotated(q, table()), rotated(k, table()), v.expand(len(POSITIONS), -1, -1)
    return _Call(*(x.to(dtype) for x in rows))


def scale_from(position: int) -> torch.Tensor:
    return torch.tensor([1.1 if p >= position else 1.0 for p in POSITIONS])[:, None, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rotation_by_position_is_right(dtype: torch.dtype) -> None:
    assert _find_fault({0: [call(dtype)]}, {0: table()}, POSITIONS) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda c: c._replace(q=c.q[:1].expand_as(c.q), k=c.k[:1].expand_as(c.k)),
            "layer 0 has no rotary position embedding",
        ),
        (lambda c: c._replace(q=c.q * scale_from(100)), "layer 0 scales by position (at 100)"),
        (lambda c: c._replace(k=c.k * scale_from(5)), "layer 0 scales by position (at 5)"),
        (
            lambda c: c._replace(k=rotated(c.k[0].float(), table(90.0)).to(c.k.dtype)),
            "layer 0 does not rotate as its rotary module says",
        ),
        (
            lambda c: c._replace(v=c.v + torch.arange(len(POSITIONS))[:, None, None] * 0.1),
            "layer 0 sees positions or other tokens by other means than rotary attention",
        ),
    ],
    ids=["no rotary", "scaled queries", "scaled keys", "another table", "other mixing"],
)
def test_faults_of_a_layer(dtype: torch.dtype, change: Change, says: str) -> None:
    changed = _Call(*(x.to(dtype) for x in change(call(dtype))))
    fault = _find_fault({0: [changed]}, {0: table()}, POSITIONS)
    assert fault is not None and fault.startswith(says)


def test_every_layer_must_be_found_and_run_once() -> None:
    rotary = table()
    missing = "attention layers [1] were not found, or did not run"
    assert _find_fault({0: [call()]}, {0: rotary, 1: rotary}, POSITIONS) == missing
    assert _find_fault({0: [call()], 1: [call()]}, {0: rotary}, POSITIONS) == missing
    twice = _find_fault({0: [call(), call()]}, {0: rotary}, POSITIONS)
    assert twice == "layer 0 attends 2 times in a pass"


def test_angles_are_proportional_to_the_position() -> None:
    right = table()
    assert _first_bend(right, MAX_POSITION) is None
    lengthened = torch.cat((right.cos_sin_cache[:100], table(90.0).cos_sin_cache[100:]))
    assert _first_bend(LayerRotary(lengthened, True), MAX_POSITION) == 100
    assert _first_bend(LayerRotary(lengthened, True), 100) is None
    halved = torch.cat((right.cos_sin_cache[:100], right.cos_sin_cache[100:] / 2))
    assert _first_bend(LayerRotary(halved, True), MAX_POSITION) == 100
