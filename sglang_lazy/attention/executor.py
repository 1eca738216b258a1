"""Carrying out a plan, layer by layer: on kernels where there is a GPU, else in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

from sglang_lazy.attention.plan import AttentionPlan
from sglang_lazy.attention.rotary import LayerRotary

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
    ) -> torch.Tensor:
        """Attention of one layer.

        Args:
            q: ``[num_tokens, num_qo_heads, head_dim]``.
            k_buffer: ``[num_slots, num_kv_heads, head_dim]``.
            v_buffer: ``[num_slots, num_kv_heads, head_dim]``.
            layer: scaling, cap and KV scales.
            rotary: the layer's rotary table.

        Returns:
            ``[num_tokens, num_qo_heads * head_dim]``.
        """
        ...


def plan_pass(plan: AttentionPlan) -> PlannedPass:
    """Make a plan ready on the device on which its slots lie."""
    return KernelPass(plan) if plan.kv_indices.is_cuda else ReferencePass(plan)


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
    ) -> torch.Tensor:
        from sglang_lazy.kernels.reference import extend_attention

        out = torch.empty_like(q)
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


class KernelPass:
    """On the Triton kernels; work units are cut once per shape of layer."""

    def __init__(self, plan: AttentionPlan) -> None:
        self._plan = plan
        self._buffers: dict[Any, Any] = {}

    def attend(
        self,
        q: torch.Tensor,
        k_buffer: torch.Tensor,
        v_buffer: torch.Tensor,
        layer: RadixAttention,
        rotary: LayerRotary,
    ) -> torch.Tensor:
        from sglang_lazy.kernels.execute import run_plan

        shape = (q.shape[1], k_buffer.shape[1], q.shape[2], q.dtype, k_buffer.dtype)
        buffers = self._buffers.get(shape)
        if buffers is None:
            buffers = self._buffers[shape] = self._cut(*shape)
        out = torch.empty_like(q)
        run_plan(
            buffers,
            q,
            k_buffer,
            v_buffer,
            out,
            self._plan.kv_indices,
            rotary.cos_sin_cache,
            is_neox_style=rotary.is_neox_style,
            **layer_settings(layer),
        )
        return out.flatten(1)

    def _cut(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        q_dtype: torch.dtype,
        kv_dtype: torch.dtype,
    ) -> Any:
        from sglang_lazy.kernels.decode import build_decode_plan, decode_config
        from sglang_lazy.kernels.extend import build_extend_plan
        from sglang_lazy.kernels.plan_buffers import PlanBuffers

        plan, device = self._plan, self._plan.kv_indices.device
        heads: dict[str, Any] = {"num_qo_heads": num_qo_heads, "num_kv_heads": num_kv_heads}
        dtypes: dict[str, Any] = {"head_dim": head_dim, "q_dtype": q_dtype, "kv_dtype": kv_dtype}
        if plan.span_ids is None:
            return build_extend_plan(
                plan.qo_indptr,
                plan.span_indptr,
                plan.span_start,
                plan.span_len,
                plan.position_offsets,
                device=device,
                **heads,
                **dtypes,
            )
        host_plan = build_decode_plan(
            plan.span_indptr,
            plan.span_start,
            plan.span_len,
            plan.position_offsets,
            plan.span_ids,
            decode_config(
                num_requests=plan.num_queries,
                may_share=plan.shares_spans,
                device=device,
                **heads,
                **dtypes,
            ),
            device=device,
            **heads,
        )
        return PlanBuffers.upload(host_plan, device)
