"""Plain PyTorch attention over ragged key spans with deferred rotation, in float32.

The oracle of the kernels, and the CPU backend. A plan (``sglang_lazy.attention.plan``)
cuts the batch's query rows into *query segments*. Every row of a segment attends to
the same list of key spans; the last span is the segment's own and is causal. With Δ
the position offset of a key's span (LazyAttention, arXiv 2606.04302),

    o = softmax over all keys k of (sm_scale * <R(-Δ) q, k>), times v

Layouts: ``q`` and ``out`` are ``[num_tokens, num_qo_heads, head_dim]``; the buffers are
``[num_slots, num_kv_heads, head_dim]``; ``lse`` is in natural logarithm.
"""

from __future__ import annotations

import torch

from sglang_lazy.kernels.rope import rotate_back


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
) -> torch.Tensor:
    """Attend from query segments to their key spans.

    Row j of a segment with n rows sees all of every span but the last, and the
    first ``span_len - n + j + 1`` keys of the last.

    Args:
        q: queries as the model rotated them, ``[num_tokens, num_qo_heads, head_dim]``.
        k_buffer: ``[num_slots, num_kv_heads, head_dim]``, keys at their stored positions.
        v_buffer: ``[num_slots, num_kv_heads, v_head_dim]``.
        out: ``[num_tokens, num_qo_heads, v_head_dim]``; rows of no segment are not written.
        qo_indptr: int32 ``[num_segments + 1]``, query rows of each segment.
        span_indptr: int32 ``[num_segments + 1]``, spans of each segment. Rows of
            a segment without any are not written.
        span_start: int64 ``[num_spans]``, first entry of each span in ``kv_indices``.
        span_len: int32 ``[num_spans]``, keys of each span, at least 1.
        position_offsets: int32 ``[num_spans]``, Δ of each span.
        kv_indices: int32 or int64 ``[num_keys]``, slots; spans may share entries.
        cos_sin_cache: float32 ``[max_position, rotary_dim]``.
        is_neox_style: the model's rotary pairing.
        sm_scale: factor of the scores.
        logit_cap: scores become ``cap * tanh(score / cap)`` where positive.
        k_scale: factor of stored keys (quantised KV).
        v_scale: factor of stored values.
        lse: optional float32 ``[num_tokens, num_qo_heads]``, receives the log-sum-exp.

    Returns:
        ``out``.
    """
    num_kv_heads, num_qo_heads = k_buffer.shape[1], q.shape[1]
    group = num_qo_heads // num_kv_heads
    qo, spans = qo_indptr.tolist(), span_indptr.tolist()
    starts, lengths, offsets = span_start.tolist(), span_len.tolist(), position_offsets.tolist()
    for i in range(len(qo) - 1):
        rows = slice(qo[i], qo[i + 1])
        n = qo[i + 1] - qo[i]
        if n == 0 or spans[i] == spans[i + 1]:
            continue
        own = spans[i + 1] - 1
        scores, slots = [], []
        rotated: dict[int, torch.Tensor] = {}
        for s in range(spans[i], spans[i + 1]):
            delta = offsets[s]
            if delta not in rotated:
                back = rotate_back(q[rows], delta, cos_sin_cache, is_neox_style)
                # [num_kv_heads, n * group, head_dim]: rows of one KV head side by side
                rotated[delta] = (
                    back.unflatten(1, (num_kv_heads, group)).transpose(0, 1).flatten(1, 2)
                )
            index = kv_indices[starts[s] : starts[s] + lengths[s]]
            k = k_buffer[index].float().permute(1, 2, 0)
            score = rotated[delta] @ k * (sm_scale * k_scale)
            if logit_cap > 0:
                score = logit_cap * torch.tanh(score / logit_cap)
            if s == own and n > 1:
                last_key = torch.arange(n, device=q.device) + (lengths[s] - n)
                hidden = torch.arange(lengths[s], device=q.device) > last_key[:, None]
                score = score.masked_fill(hidden.repeat_interleave(group, 0), float("-inf"))
            scores.append(score)
            slots.append(index)
        score = torch.cat(scores, dim=-1)
        v = v_buffer[torch.cat(slots)].float().transpose(0, 1)
        o = (torch.softmax(score, dim=-1) @ v) * v_scale
        out[rows] = o.unflatten(1, (n, group)).transpose(0, 1).flatten(1, 2).to(out.dtype)
        if lse is not None:
            segment_lse = torch.logsumexp(score, dim=-1)
            lse[rows] = segment_lse.unflatten(1, (n, group)).transpose(0, 1).flatten(1, 2)
    return out


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
) -> torch.Tensor:
    """Attend from one query row per request to all keys of its spans.

    Arguments as for :func:`extend_attention`, with ``num_tokens`` = batch size.
    """
    qo_indptr = torch.arange(len(q) + 1, dtype=torch.int32)
    return extend_attention(
        q,
        k_buffer,
        v_buffer,
        out,
        qo_indptr,
        span_indptr,
        span_start,
        span_len,
        position_offsets,
        kv_indices,
        cos_sin_cache,
        is_neox_style=is_neox_style,
        sm_scale=sm_scale,
        logit_cap=logit_cap,
        k_scale=k_scale,
        v_scale=v_scale,
        lse=lse,
    )


def rotate_gather(
    q: torch.Tensor,
    rows: torch.Tensor,
    position_offsets: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    *,
    is_neox_style: bool,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute ``out[i] = R(-position_offsets[i]) q[rows[i]]``; see ``rotate_gather.py``."""
    if out is None:
        out = q.new_empty((len(rows), *q.shape[1:]))
    for i, (row, offset) in enumerate(zip(rows.tolist(), position_offsets.tolist(), strict=True)):
        out[i] = rotate_back(q[row], offset, cos_sin_cache, is_neox_style).to(out.dtype)
    return out


def merge_state(
    partial_o: torch.Tensor,
    partial_lse: torch.Tensor,
    merge_rows: torch.Tensor,
    merge_indptr: torch.Tensor,
    merge_indices: torch.Tensor,
    out: torch.Tensor,
    *,
    num_merge_rows: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    external_o: torch.Tensor | None = None,
    external_lse: torch.Tensor | None = None,
) -> torch.Tensor:
    """Write the combined result of each row in ``merge_rows``; see ``merge_state.py``."""
    rows, indptr = merge_rows.tolist(), merge_indptr.tolist()
    if num_merge_rows is not None:
        rows = rows[: int(num_merge_rows)]
    for i, row in enumerate(rows):
        index = merge_indices[indptr[i] : indptr[i + 1]].long()
        o, o_lse = partial_o[index].float(), partial_lse[index]
        if external_o is not None and external_lse is not None:
            o = torch.cat((o, external_o[row : row + 1].float()))
            o_lse = torch.cat((o_lse, external_lse[row : row + 1]))
        total = torch.logsumexp(o_lse, dim=0)
        # No result, or only such as saw no key: zero.
        weight = torch.nan_to_num(torch.exp(o_lse - total))
        out[row] = (weight[..., None] * o).sum(0).to(out.dtype)
        if lse is not None:
            lse[row] = total
    return out
