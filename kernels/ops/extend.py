"""Attention of query segments over ragged key spans with deferred rotation (``attend.py``)."""

from __future__ import annotations

import numpy as np
import torch

from sglang_lazy.kernels.config import LaunchConfig, choose_config, device_architecture
from sglang_lazy.kernels.execute import run_plan
from sglang_lazy.kernels.plan_buffers import PlanBuffers
from sglang_lazy.kernels.planner import plan_extend


def extend_config(
    *,
    max_queries: int,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    q_dtype: torch.dtype,
    kv_dtype: torch.dtype,
    device: torch.device | str,
) -> LaunchConfig:
    """The launch for a pass whose longest segment has ``max_queries`` rows.

    Other arguments as for :func:`sglang_lazy.kernels.decode.decode_config`.
    """
    group = num_qo_heads // num_kv_heads
    return choose_config(
        device_architecture(device)[0],
        rows=max_queries * group,
        shared_rows=0,
        group=group,
        head_dim=head_dim,
        q_bytes=q_dtype.itemsize,
        kv_bytes=kv_dtype.itemsize,
    )


def build_extend_plan(
    qo_indptr: torch.Tensor | np.ndarray,
    span_indptr: torch.Tensor | np.ndarray,
    span_start: torch.Tensor | np.ndarray,
    span_len: torch.Tensor | np.ndarray,
    position_offsets: torch.Tensor | np.ndarray,
    *,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    q_dtype: torch.dtype,
    kv_dtype: torch.dtype,
    device: torch.device | str,
    config: LaunchConfig | None = None,
) -> PlanBuffers:
    """Work units for all layers of one forward pass; copied to ``device`` without waiting.

    Args:
        qo_indptr: as for :func:`extend_attention`, as are the next four. On the host: those
            of a CUDA tensor are waited for.
        num_qo_heads: query heads of one layer.
        num_kv_heads: KV heads of one layer.
        head_dim: before padding.
        q_dtype: of the queries.
        kv_dtype: of the stored keys.
        device: where the layers run.
        config: tile sizes; from the table of the device if absent.
    """
    qo, spans, start, length, offsets = (
        np.asarray(a.cpu() if isinstance(a, torch.Tensor) else a)
        for a in (qo_indptr, span_indptr, span_start, span_len, position_offsets)
    )
    if config is None:
        config = extend_config(
            max_queries=int(np.diff(qo)[np.diff(spans) > 0].max(initial=1)),
            num_qo_heads=num_qo_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            q_dtype=q_dtype,
            kv_dtype=kv_dtype,
            device=device,
        )
    plan = plan_extend(
        qo,
        spans,
        start,
        length,
        offsets,
        config=config,
        group=num_qo_heads // num_kv_heads,
        num_kv_heads=num_kv_heads,
        num_sms=device_architecture(device)[1],
    )
    return PlanBuffers.upload(plan, device)


def extend_attention(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    out: torch.Tensor,
    qo_indptr: torch.Tensor,
    span_indptr: torch.Tensor,
    span_start: torch.Tensor,
    span_len: torch.Tensor,
    position_offsets: torch.Tensor,
    kv_indices: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    *,
    is_neox_style: bool,
    sm_scale: float,
    logit_cap: float = 0.0,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    lse: torch.Tensor | None = None,
    plan: PlanBuffers | None = None,
) -> torch.Tensor:
    """Attend from query segments to their key spans.

    Arguments as for :func:`sglang_lazy.kernels.reference.extend_attention`, and:

    Args:
        plan: of :func:`build_extend_plan`, shared by all layers; if absent it is built
            here, which waits for the device where the metadata lie on it.

    Returns:
        ``out``.
    """
    if plan is None:
        plan = build_extend_plan(
            qo_indptr,
            span_indptr,
            span_start,
            span_len,
            position_offsets,
            num_qo_heads=q.shape[1],
            num_kv_heads=k_buffer.shape[1],
            head_dim=q.shape[2],
            q_dtype=q.dtype,
            kv_dtype=k_buffer.dtype,
            device=q.device,
        )
    return run_plan(
        plan,
        q,
        k_buffer,
        v_buffer,
        out,
        kv_indices,
        cos_sin_cache,
        is_neox_style=is_neox_style,
        sm_scale=sm_scale,
        logit_cap=logit_cap,
        k_scale=k_scale,
        v_scale=v_scale,
        lse=lse,
    )
