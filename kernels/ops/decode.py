"""Attention of one query row per request, reading spans that requests share only once.

Requests that hold the same document, wherever each holds it, attend to it in one item:
their query rows, each rotated back by its own offset, fill a tile (``attend.py``).
"""

from __future__ import annotations

import numpy as np
import torch

from sglang_lazy.kernels.config import LaunchConfig, choose_config, device_architecture
from sglang_lazy.kernels.execute import run_plan
from sglang_lazy.kernels.plan_buffers import PlanBuffers
from sglang_lazy.kernels.planner import HostPlan, plan_decode


def decode_config(
    *,
    num_requests: int,
    may_share: bool,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    q_dtype: torch.dtype,
    kv_dtype: torch.dtype,
    device: torch.device | str,
) -> LaunchConfig:
    """The launch for a batch of ``num_requests``; one CUDA graph needs one.

    Args:
        num_requests: rows of the batch.
        may_share: whether spans may be grouped; without, tiles are the smallest.
        num_qo_heads: query heads of one layer.
        num_kv_heads: KV heads of one layer.
        head_dim: before padding.
        q_dtype: of the queries.
        kv_dtype: of the stored keys.
        device: where the layers run.
    """
    group = num_qo_heads // num_kv_heads
    return choose_config(
        device_architecture(device)[0],
        rows=group,
        shared_rows=num_requests * group if may_share and num_requests > 1 else 0,
        group=group,
        head_dim=head_dim,
        q_bytes=q_dtype.itemsize,
        kv_bytes=kv_dtype.itemsize,
    )


def build_decode_plan(
    span_indptr: torch.Tensor | np.ndarray,
    span_start: torch.Tensor | np.ndarray,
    span_len: torch.Tensor | np.ndarray,
    position_offsets: torch.Tensor | np.ndarray,
    span_ids: torch.Tensor | np.ndarray | None,
    config: LaunchConfig,
    *,
    num_qo_heads: int,
    num_kv_heads: int,
    device: torch.device | str,
    num_padded_rows: int = 0,
) -> HostPlan:
    """Work units for all layers of one step; for ``PlanBuffers.upload`` or ``load``.

    Args:
        span_indptr: as for :func:`decode_attention`, as are the next three. On the host:
            those of a CUDA tensor are waited for.
        span_ids: int64 ``[num_spans]``: spans of equal id and length hold the same keys.
            None: nothing is grouped.
        config: of :func:`decode_config`.
        num_qo_heads: query heads of one layer.
        num_kv_heads: KV heads of one layer.
        device: where the layers run.
        num_padded_rows: rows after the last request; their output is set to zero.
    """
    indptr, start, length, offsets = (
        np.asarray(a.cpu() if isinstance(a, torch.Tensor) else a)
        for a in (span_indptr, span_start, span_len, position_offsets)
    )
    if isinstance(span_ids, torch.Tensor):
        span_ids = span_ids.cpu().numpy()
    return plan_decode(
        indptr,
        start,
        length,
        offsets,
        span_ids,
        config=config,
        group=num_qo_heads // num_kv_heads,
        num_kv_heads=num_kv_heads,
        num_sms=device_architecture(device)[1],
        num_padded_rows=num_padded_rows,
    )


def decode_attention(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    out: torch.Tensor,
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
    """Attend from one query row per request to all keys of its spans.

    Arguments as for :func:`sglang_lazy.kernels.reference.decode_attention`, and:

    Args:
        plan: shared by all layers; if absent it is built here, which waits for the device
            where the metadata lie on it. Spans with the same first slot and length are
            then taken to be the same.

    Returns:
        ``out``.
    """
    if plan is None:
        config = decode_config(
            num_requests=len(q),
            may_share=True,
            num_qo_heads=q.shape[1],
            num_kv_heads=k_buffer.shape[1],
            head_dim=q.shape[2],
            q_dtype=q.dtype,
            kv_dtype=k_buffer.dtype,
            device=q.device,
        )
        host_plan = build_decode_plan(
            span_indptr,
            span_start,
            span_len,
            position_offsets,
            kv_indices[span_start.to(kv_indices.device)],
            config,
            num_qo_heads=q.shape[1],
            num_kv_heads=k_buffer.shape[1],
            device=q.device,
        )
        plan = PlanBuffers.upload(host_plan, q.device)
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
