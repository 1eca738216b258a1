"""What a loaded model does with positions, found by running it once.

A token that attends to itself alone gets its own value back, whatever its position. So
if tokens meet in attention only, and positions enter by rotation only, equal tokens at
different positions have equal hidden states throughout the model, and every layer's
queries and keys at position p are those at position 0, rotated by p. Reading the modules
does not tell: models hold rotary modules that some layers do not use, and scale queries
by position after rotating them.
"""

from __future__ import annotations

import copy
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

from sglang_lazy import compat
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.kernels.rope import rotate_back

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.model_runner import ModelRunner


logger = logging.getLogger(__name__)

_NUM_SAMPLES = 4096
"""Positions at which a table is looked at."""


class _Unsupported(Exception):
    """A layer asks of attention what the lazy path does not give."""


class _Call(NamedTuple):
    """What a layer gave to attention, ``[num_tokens, num_heads, head_dim]`` each."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


class _Recorder(AttentionBackend):
    """Attention of each token to itself; put before the class of a copy of the backend."""

    calls: dict[int, list[_Call]]
    token_to_kv_pool: Any

    @staticmethod
    def copy_of(backend: Any) -> Any:
        recorder = copy.copy(backend)
        recorder.__class__ = type("Recorder", (_Recorder, type(backend)), {})
        recorder.calls = defaultdict(list)
        return recorder

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        given = [name for name, value in kwargs.items() if value is not None]
        if given:
            raise _Unsupported(f"layer {layer.layer_id} needs attention with {', '.join(given)}")
        if k is None or v is None:
            raise _Unsupported(f"layer {layer.layer_id} uses another layer's keys")
        num_tokens = len(q)
        if not save_kv_cache:  # the model has stored the keys while it rotated them
            stored = self.token_to_kv_pool.get_key_buffer(layer.layer_id)
            k = stored[forward_batch.out_cache_loc].to(q.dtype)
        values = v.reshape(num_tokens, layer.tp_v_head_num, layer.v_head_dim)
        self.calls[layer.layer_id].append(
            _Call(
                q.reshape(num_tokens, layer.tp_q_head_num, layer.qk_head_dim).clone(),
                k.reshape(num_tokens, layer.tp_k_head_num, layer.qk_head_dim).clone(),
                values.clone(),
            )
        )
        group = layer.tp_q_head_num // layer.tp_v_head_num
        return values.repeat_interleave(group, dim=1).flatten(1)


def verify_rotaries(model_runner: ModelRunner, rotaries: dict[int, LayerRotary]) -> None:
    """Check that the model uses positions as ``rotaries`` says, in every layer.

    Raises:
        ValueError: it does not; names the layer and what is wrong.
    """
    name = type(model_runner.model).__name__
    context_len = model_runner.model_config.context_len
    shortest = min(len(rotary.cos_sin_cache) for rotary in rotaries.values())
    if shortest < context_len:
        raise ValueError(
            f"--chunk-cache lazy does not support {name} with --context-length {context_len}: "
            f"its rotary table has {shortest} positions"
        )
    for rotary in {id(rotary): rotary for rotary in rotaries.values()}.values():
        bent = _first_bend(rotary, context_len)
        if bent is not None:
            raise ValueError(
                f"--chunk-cache lazy does not support {name}: its rotary angles are not "
                f"proportional to the position from {bent} on"
            )
    positions = [0, 1, 2, 11, context_len // 2, context_len - 2, context_len - 1]
    recorder = _Recorder.copy_of(model_runner.attn_backend)
    try:
        compat.run_at_positions(model_runner, recorder, positions)
    except _Unsupported as error:
        raise ValueError(f"--chunk-cache lazy does not support {name}: {error}") from error
    except Exception:
        # Says nothing about the model, whose rotary modules were found: only about this run,
        # which SGLang did not prepare.
        logger.warning("How %s uses positions could not be checked", name, exc_info=True)
        return
    fault = _find_fault(recorder.calls, rotaries, positions)
    if fault is not None:
        raise ValueError(f"--chunk-cache lazy does not support {name}: {fault}")


def _first_bend(rotary: LayerRotary, context_len: int) -> int | None:
    """Some position p, near the first, with R(p) other than R(a) R(p - a); None if none.

    A table that SGLang has lengthened beyond what a scaled embedding was made for goes on
    unscaled.
    """
    table = rotary.cos_sin_cache
    step = max(1, context_len // _NUM_SAMPLES)
    p = torch.arange(context_len - 1, 0, -step, device=table.device).flip(0)
    a = p // 2
    r_a, r_b, r_p = (torch.complex(*table[i].chunk(2, dim=-1)) for i in (a, p - a, p))
    error = (r_a * r_b - r_p).abs().amax(dim=-1)
    # Float32 holds the angle of p to p * 2^-24.
    bent = p[error > 4 * p * 2.0**-24 + 1e-5]
    return int(bent[0]) if len(bent) else None


def _find_fault(
    calls: dict[int, list[_Call]], rotaries: dict[int, LayerRotary], positions: list[int]
) -> str | None:
    if calls.keys() != rotaries.keys():
        layers = sorted(calls.keys() ^ rotaries.keys())
        return f"attention layers {layers} were not found, or did not run"
    for layer_id in sorted(calls):
        if len(calls[layer_id]) != 1:
            return f"layer {layer_id} attends {len(calls[layer_id])} times in a pass"
        fault = _fault_of_layer(calls[layer_id][0], rotaries[layer_id], positions)
        if fault is not None:
            return f"layer {layer_id} {fault}"
    return None


def _fault_of_layer(call: _Call, rotary: LayerRotary, positions: list[int]) -> str | None:
    if any(_differ(v, call.v[0]) for v in call.v):
        return "sees positions or other tokens by other means than rotary attention"
    for x in (call.q, call.k):
        for row, position in zip(x, positions, strict=True):
            back = rotate_back(row, position, *rotary)
            if not _differ(back, x[0]):
                continue
            if not _differ(row, x[0]):
                return "has no rotary position embedding"
            if _differ(row.float().norm(), x[0].float().norm().to(x.dtype)):
                return f"scales by position (at {position})"
            return f"does not rotate as its rotary module says (at position {position})"
    return None


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two results differ by more than rounding in the dtype of ``b``."""
    tolerance = 4 * torch.finfo(b.dtype).eps + 1e-5
    return not bool((a.float() - b.float()).norm() <= tolerance * b.float().norm())
