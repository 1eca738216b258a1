"""Carrying out a plan on the Triton kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sglang_lazy.attention.executor import layer_settings
from sglang_lazy.attention.plan import AttentionPlan
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.kernels.decode import build_decode_plan, decode_config
from sglang_lazy.kernels.execute import run_plan
from sglang_lazy.kernels.extend import build_extend_plan
from sglang_lazy.kernels.plan_buffers import PlanBuffers

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention


def run_layer(
    buffers: PlanBuffers,
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    out: torch.Tensor,
    kv_indices: torch.Tensor,
    *,
    layer: RadixAttention,
    rotary: LayerRotary,
) -> None:
    """One layer of a pass, into ``out``; tensors as for :func:`run_plan`."""
    run_plan(
        buffers,
        q,
        k_buffer,
        v_buffer,
        out,
        kv_indices,
        rotary.cos_sin_cache,
        is_neox_style=rotary.is_neox_style,
        **layer_settings(layer),
    )


class KernelPass:
    """On the Triton kernels; work units are cut once per shape of layer."""

    def __init__(self, plan: AttentionPlan) -> None:
        self._plan = plan
        self._buffers: dict[tuple[Any, ...], PlanBuffers] = {}

    def attend(
        self,
        q: torch.Tensor,
        k_buffer: torch.Tensor,
        v_buffer: torch.Tensor,
        layer: RadixAttention,
        rotary: LayerRotary,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        shape = (q.shape[1], k_buffer.shape[1], q.shape[2], q.dtype, k_buffer.dtype)
        buffers = self._buffers.get(shape)
        if buffers is None:
            buffers = self._buffers[shape] = self._cut(*shape)
        out = torch.empty_like(q) if out is None else out
        run_layer(
            buffers, q, k_buffer, v_buffer, out, self._plan.kv_indices, layer=layer, rotary=rotary
        )
        return out.flatten(1)

    def _cut(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        q_dtype: torch.dtype,
        kv_dtype: torch.dtype,
    ) -> PlanBuffers:
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
