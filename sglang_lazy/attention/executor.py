"""Carrying out a plan, layer by layer: on kernels where there is a GPU, else in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

from sglang_lazy.attention.plan import AttentionPlan
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.kernels.reference import extend_attention

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention


class PlannedPass(Protocol):
    """A plan made ready for the layers of one pass."""

    def attend(
        self,
        q: torch.Tensor,
        k_buffer: torch.Tensor,
        v_buffer: torch.Tensor,
        layer: RadixAttention,
        rotary: LayerRotary,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attention of one layer.

        Args:
            q: ``[num_tokens, num_qo_heads, head_dim]``.
            k_buffer: ``[num_slots, num_kv_heads, head_dim]``.
            v_buffer: ``[num_slots, num_kv_heads, head_dim]``.
            layer: scaling, cap and KV scales.
            rotary: the layer's rotary table.
            out: like ``q``; written where the plan has spans. Made if absent.

        Returns:
            ``[num_tokens, num_qo_heads * head_dim]``, of ``out``.
        """
        ...


def plan_pass(plan: AttentionPlan, kv_dtype: torch.dtype) -> PlannedPass:
    """Make a plan ready on the device on which its slots lie, for keys of ``kv_dtype``."""
    if not plan.kv_indices.is_cuda:
        return ReferencePass(plan)
    # Triton is not there on every host without a GPU.
    from sglang_lazy.attention.flash_pass import plan_flash_pass
    from sglang_lazy.attention.kernel_pass import KernelPass

    return plan_flash_pass(plan, kv_dtype) or KernelPass(plan)


def layer_settings(layer: RadixAttention) -> dict[str, Any]:
    """What a layer's attention needs besides its tensors, by the kernels' names."""
    has_scales = getattr(layer, "k_scale_float", None) is not None
    return {
        "sm_scale": layer.scaling,
        "logit_cap": layer.logit_cap,
        "k_scale": layer.k_scale_float if has_scales else 1.0,
        "v_scale": layer.v_scale_float if has_scales else 1.0,
    }


class ReferencePass:
    """In plain PyTorch, float32 inside."""

    def __init__(self, plan: AttentionPlan) -> None:
        self._kv_indices = plan.kv_indices
        self._qo_indptr = torch.from_numpy(plan.qo_indptr)
        self._span_indptr = torch.from_numpy(plan.span_indptr)
        self._span_start = torch.from_numpy(plan.span_start)
        self._span_len = torch.from_numpy(plan.span_len)
        self._position_offsets = torch.from_numpy(plan.position_offsets)

    def attend(
        self,
        q: torch.Tensor,
        k_buffer: torch.Tensor,
        v_buffer: torch.Tensor,
        layer: RadixAttention,
        rotary: LayerRotary,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        out = torch.empty_like(q) if out is None else out
        extend_attention(
            q,
            k_buffer,
            v_buffer,
            out,
            self._qo_indptr,
            self._span_indptr,
            self._span_start,
            self._span_len,
            self._position_offsets,
            self._kv_indices,
            rotary.cos_sin_cache,
            is_neox_style=rotary.is_neox_style,
            **layer_settings(layer),
        )
        return out.flatten(1)
