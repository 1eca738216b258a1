"""Run a plan for one layer: attend unit by unit, then merge what was split."""

from __future__ import annotations

import torch
import triton

from sglang_lazy.kernels.attend import attend_kernel
from sglang_lazy.kernels.config import device_architecture
from sglang_lazy.kernels.launch import (
    check_device,
    check_dtype,
    check_rotary_table,
    check_shape,
    check_strides,
)
from sglang_lazy.kernels.merge_state import merge_state
from sglang_lazy.kernels.plan_buffers import PlanBuffers
from sglang_lazy.kernels.rotate_gather import half_block, pair_run

QUERY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FP8_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
_LOG2_E = 1.4426950408889634


def run_plan(
    plan: PlanBuffers,
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    out: torch.Tensor,
    kv_indices: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    *,
    is_neox_style: bool,
    sm_scale: float,
    logit_cap: float = 0.0,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    lse: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of every row in the plan; two launches, or one where nothing is split.

    Arguments as for :func:`sglang_lazy.kernels.reference.extend_attention`;
    ``kv_indices`` may also be int32 (SGLang's ``req_to_token``, flattened).

    Raises:
        ValueError: a shape, dtype or device that the kernels do not take; names the argument.
    """
    num_tokens, num_qo_heads, head_dim = q.shape
    num_slots, num_kv_heads = k_buffer.shape[:2]
    v_head_dim = v_buffer.shape[-1]
    check_dtype("q", q, *QUERY_DTYPES)
    check_dtype("k_buffer", k_buffer, q.dtype, *FP8_DTYPES)
    check_dtype("v_buffer", v_buffer, k_buffer.dtype)
    check_dtype("kv_indices", kv_indices, torch.int32, torch.int64)
    check_shape("k_buffer", k_buffer, (num_slots, num_kv_heads, head_dim))
    check_shape("v_buffer", v_buffer, (num_slots, num_kv_heads, v_head_dim))
    check_shape("out", out, (num_tokens, num_qo_heads, v_head_dim))
    check_rotary_table(cos_sin_cache, head_dim)
    check_strides(q=q, k_buffer=k_buffer, v_buffer=v_buffer, out=out)
    check_device(
        q.device,
        k_buffer=k_buffer,
        v_buffer=v_buffer,
        out=out,
        kv_indices=kv_indices,
        cos_sin_cache=cos_sin_cache,
        units=plan.units,
    )
    if k_buffer.dtype in FP8_DTYPES and not device_architecture(q.device)[0].has_fp8:
        raise ValueError("fp8 KV needs compute capability 8.9 or later")
    if num_qo_heads % num_kv_heads:
        raise ValueError(
            f"q must have a multiple of the KV heads ({num_kv_heads}) as heads, got {num_qo_heads}"
        )
    if plan.max_offset >= len(cos_sin_cache):
        raise ValueError(
            f"cos_sin_cache must have more than {plan.max_offset} positions, the largest "
            f"position offset, got {len(cos_sin_cache)}"
        )
    if lse is not None:
        check_shape("lse", lse, (num_tokens, num_qo_heads))
        check_dtype("lse", lse, torch.float32)
    num_programs = plan.num_programs(num_kv_heads)
    partial_o = q.new_empty((plan.num_partials, num_qo_heads, v_head_dim), dtype=torch.float32)
    partial_lse = q.new_empty((plan.num_partials, num_qo_heads), dtype=torch.float32)
    config = plan.config
    score_scale, cap = sm_scale * k_scale * _LOG2_E, 0.0
    if logit_cap > 0:
        score_scale, cap = sm_scale * k_scale / logit_cap, logit_cap * _LOG2_E
    if num_programs:
        attend_kernel[(num_programs,)](
            q=q,
            k_buffer=k_buffer,
            v_buffer=v_buffer,
            out=out,
            lse=partial_lse if lse is None else lse,
            partial_o=partial_o,
            partial_lse=partial_lse,
            unit_counts=plan.counts,
            units=plan.units,
            item_rows=plan.item_rows,
            item_offsets=plan.item_offsets,
            span_start=plan.span_start,
            span_len=plan.span_len,
            position_offsets=plan.position_offsets,
            kv_indices=kv_indices,
            cos_sin_cache=cos_sin_cache,
            score_scale=score_scale,
            logit_cap=cap,
            v_scale=v_scale,
            num_kv_heads=num_kv_heads,
            stride_qt=q.stride(0),
            stride_qh=q.stride(1),
            stride_kh=k_buffer.stride(1),
            stride_vh=v_buffer.stride(1),
            stride_ot=out.stride(0),
            stride_oh=out.stride(1),
            GROUP=num_qo_heads // num_kv_heads,
            HEAD_DIM=head_dim,
            V_HEAD_DIM=v_head_dim,
            HALF_D=half_block(head_dim),
            BLOCK_DV=max(triton.next_power_of_2(v_head_dim), 16),
            STRIDE_KN=k_buffer.stride(0),
            STRIDE_VN=v_buffer.stride(0),
            ROTARY_DIM=cos_sin_cache.shape[1],
            IS_NEOX=is_neox_style,
            VEC=pair_run(head_dim, cos_sin_cache.shape[1]),
            HAS_CAP=logit_cap > 0,
            HAS_LSE=lse is not None,
            PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
            ITEM_M=config.item_m,
            ITEM_N=config.item_n,
            SEGMENT_M=config.segment_m,
            SEGMENT_N=config.segment_n,
            num_warps=config.num_warps,
            num_stages=config.num_stages,
            **({} if config.max_registers is None else {"maxnreg": config.max_registers}),
        )
    return merge_state(
        partial_o,
        partial_lse,
        plan.merge_rows,
        plan.merge_indptr,
        plan.merge_indices,
        out,
        num_merge_rows=plan.counts[2:],
        lse=lse,
    )
