"""The model's own rotary modules, deferred: rotating the query back moves the key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from sglang.srt.layers.radix_attention import AttentionType, RadixAttention
from sglang.srt.layers.rotary_embedding import get_rope
from sglang.srt.runtime_context import get_context

from sglang_lazy.attention.rotary import LayerRotary, find_rotaries
from sglang_lazy.kernels.rope import rotate_back

HEAD_DIM, MAX_POSITION = 32, 256
SCALINGS: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "linear": {"rope_type": "linear", "factor": 2.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
}


@pytest.fixture(autouse=True)
def published_config() -> Iterator[None]:
    """Rotary modules read SGLang's process-wide settings."""
    with get_context().override_server_args():
        yield


class Attention(torch.nn.Module):
    """The form in which SGLang's models hold an attention layer."""

    def __init__(self, rotary_emb: Any, layer_id: int = 0, **kwargs: Any) -> None:
        super().__init__()
        if rotary_emb is not None:
            self.rotary_emb = rotary_emb
        self.attn = RadixAttention(4, HEAD_DIM, 0.1, 2, layer_id=layer_id, **kwargs)


def make_rope(
    scaling: str = "plain",
    rotary_dim: int = HEAD_DIM,
    is_neox_style: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Any:
    return get_rope(
        HEAD_DIM, rotary_dim, MAX_POSITION, 10000, is_neox_style, SCALINGS[scaling], dtype
    )


def found(rotary_emb: Any) -> LayerRotary:
    return find_rotaries(torch.nn.ModuleList([Attention(rotary_emb)]))[0]


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(
    ("rotary_dim", "is_neox_style"), [(HEAD_DIM, True), (HEAD_DIM, False), (16, True), (16, False)]
)
def test_rotating_the_query_back_moves_the_key(
    scaling: str, rotary_dim: int, is_neox_style: bool
) -> None:
    rope = make_rope(scaling, rotary_dim, is_neox_style)
    table = found(rope)
    assert table.is_neox_style is is_neox_style and table.cos_sin_cache.dtype == torch.float32
    q, k = torch.randn(2, 1, HEAD_DIM)

    def rotated(x: torch.Tensor, position: int) -> torch.Tensor:
        return rope.forward_native(torch.tensor([position]), x.clone(), x.clone())[0].view(-1)

    for position, stored, offset in [(200, 3, 120), (60, 50, -1), (5, 0, 5), (255, 1, 250)]:
        wanted = rotated(q, position) @ rotated(k, stored + offset)
        back = rotate_back(rotated(q, position), offset, *table)
        torch.testing.assert_close(back @ rotated(k, stored), wanted, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_table_is_exact_for_half_precision_models(scaling: str) -> None:
    exact, half = (found(make_rope(scaling, dtype=d)) for d in (torch.float32, torch.bfloat16))
    torch.testing.assert_close(half.cos_sin_cache, exact.cos_sin_cache, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_rotations_have_unit_magnitude(scaling: str) -> None:
    cos, sin = found(make_rope(scaling)).cos_sin_cache.chunk(2, dim=-1)
    torch.testing.assert_close(cos**2 + sin**2, torch.ones_like(cos))


def test_layers_by_id() -> None:
    neox, interleaved = make_rope(), make_rope(is_neox_style=False)
    layers = [Attention(neox, 3), Attention(interleaved, 5), Attention(neox, 4)]
    rotaries = find_rotaries(torch.nn.ModuleList(layers))
    assert {i: r.is_neox_style for i, r in rotaries.items()} == {3: True, 4: True, 5: False}
    assert rotaries[3] is rotaries[4], "one table per module"


class Unknown(torch.nn.Module):
    """A rotary module of another kind."""

    cos_sin_cache = torch.zeros(4, 8)


class Wrong(torch.nn.Module):
    """Looks like SGLang's, and rotates twice as far as its table says."""

    def __init__(self) -> None:
        super().__init__()
        self._rope = make_rope()
        self.cos_sin_cache, self.head_size = self._rope.cos_sin_cache, HEAD_DIM
        self.is_neox_style, self._compute_cos_sin_cache = True, self._rope._compute_cos_sin_cache

    def forward_native(self, positions: torch.Tensor, *qk: torch.Tensor) -> Any:
        return self._rope.forward_native(2 * positions % MAX_POSITION, *qk)


@pytest.mark.parametrize(
    ("make_layer", "says"),
    [
        (lambda: Attention(None), r"needs rotary position embeddings, which 0 \(Attention\)"),
        (lambda: Attention(Unknown()), "does not support the rotary embedding Unknown of 0"),
        (lambda: Attention(Wrong()), "does not support the rotary embedding Wrong of 0"),
        (
            lambda: Attention(make_rope(), sliding_window_size=8),
            "does not support sliding-window attention, which 0 uses",
        ),
        (
            lambda: Attention(make_rope(), v_head_dim=16),
            "does not support multi-head latent attention, used by 0",
        ),
        (
            lambda: Attention(make_rope(), use_irope=True),
            "does not support chunked attention, used by 0",
        ),
        (
            lambda: Attention(make_rope(), attn_type=AttentionType.DECODER_BIDIRECTIONAL),
            "does not support attention in both directions, used by 0",
        ),
        (
            lambda: Attention(make_rope(), logit_cap=30.0, logit_capping_method="sigmoid"),
            "does not support attention logits capped by sigmoid, used by 0",
        ),
        (lambda: torch.nn.Linear(2, 2), "no attention layer of a known form was found"),
    ],
    ids=[
        "no rotary",
        "unknown",
        "wrong",
        "sliding window",
        "latent",
        "chunked",
        "both directions",
        "another cap",
        "no attention",
    ],
)
def test_refused(make_layer: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        find_rotaries(torch.nn.ModuleList([make_layer()]))
