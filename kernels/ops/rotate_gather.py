"""Rotate query rows back by their position offsets and gather them into a ragged buffer.

    out[i] = R(-offsets[i]) q[rows[i]]

in float32, rounded once to the dtype of ``out`` (docs/design.md, "What is computed").
Feeds a variable-length attention kernel that knows nothing of offsets, such as
FlashAttention-3. ``pair_dimension`` and ``rotate_pairs`` also rotate the query tiles
of ``attend.py``.

Layouts: ``q`` is ``[num_tokens, num_qo_heads, head_dim]``, ``out`` is
``[num_rows, num_qo_heads, head_dim]``; the last dimension is contiguous.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_lazy.kernels.launch import check_dtype, check_rotary_table, check_shape, check_strides

BLOCK_ROWS = 16


@triton.jit
def pair_dimension(
    i,
    is_second,
    HEAD_DIM: tl.constexpr,
    ROTARY_DIM: tl.constexpr,
    IS_NEOX: tl.constexpr,
    VEC: tl.constexpr,
):
    """First or second member of the i-th rotary pair; dimensions not rotated pair up last."""
    if IS_NEOX:
        rotated = tl.where(is_second, ROTARY_DIM // 2, 0)
        passed = tl.where(is_second, HEAD_DIM // 2, ROTARY_DIM // 2)
        d = i + tl.where(i < ROTARY_DIM // 2, rotated, passed)
        # VEC of them lie in a row, which the compiler cannot see.
        return tl.max_contiguous(tl.multiple_of(d, VEC), VEC)
    else:
        return 2 * i + is_second


@triton.jit
def rotate_pairs(
    first,  # [M, HALF_D]
    second,
    offset,  # [M] if PER_ROW, else a scalar
    row_mask,
    cos_sin_cache,
    HALF_D: tl.constexpr,
    ROTARY_DIM: tl.constexpr,
    PER_ROW: tl.constexpr,
):
    """R(-offset) of rotary pairs, in float32."""
    i = tl.arange(0, HALF_D)
    table = cos_sin_cache + tl.abs(offset).to(tl.int64) * ROTARY_DIM
    sign = tl.where(offset < 0, -1.0, 1.0)
    if PER_ROW:
        table = table[:, None] + i[None, :]
        sign = sign[:, None]
        mask = row_mask[:, None] & (i < ROTARY_DIM // 2)[None, :]
    else:
        table = (table + i)[None, :]
        mask = (i < ROTARY_DIM // 2)[None, :]
    cos = tl.load(table, mask=mask, other=1.0)
    sin = tl.load(table + ROTARY_DIM // 2, mask=mask, other=0.0) * sign
    x = first.to(tl.float32)
    y = second.to(tl.float32)
    return x * cos + y * sin, y * cos - x * sin


@triton.jit
def _rotate_gather_kernel(
    q,
    out,
    rows,
    offsets,
    cos_sin_cache,
    num_rows,
    stride_qt,
    stride_qh,
    stride_ot,
    stride_oh,
    HEAD_DIM: tl.constexpr,
    HALF_D: tl.constexpr,
    ROTARY_DIM: tl.constexpr,
    IS_NEOX: tl.constexpr,
    VEC: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    r = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    head = tl.program_id(1)
    row_mask = r < num_rows
    token = tl.load(rows + r, mask=row_mask, other=0).to(tl.int64)
    offset = tl.load(offsets + r, mask=row_mask, other=0)
    i = tl.arange(0, HALF_D)
    mask = row_mask[:, None] & (i < HEAD_DIM // 2)[None, :]
    d_first = pair_dimension(i, False, HEAD_DIM, ROTARY_DIM, IS_NEOX, VEC)[None, :]
    d_second = pair_dimension(i, True, HEAD_DIM, ROTARY_DIM, IS_NEOX, VEC)[None, :]
    source = (q + token * stride_qt + head * stride_qh)[:, None]
    # [BLOCK_ROWS, HALF_D]
    first = tl.load(source + d_first, mask=mask, other=0.0)
    second = tl.load(source + d_second, mask=mask, other=0.0)
    first, second = rotate_pairs(
        first, second, offset, row_mask, cos_sin_cache, HALF_D, ROTARY_DIM, PER_ROW=True
    )
    target = (out + r.to(tl.int64) * stride_ot + head * stride_oh)[:, None]
    tl.store(target + d_first, first.to(out.dtype.element_ty), mask=mask)
    tl.store(target + d_second, second.to(out.dtype.element_ty), mask=mask)


def half_block(head_dim: int) -> int:
    """Pairs of a padded tile: a power of two."""
    return max(triton.next_power_of_2(head_dim // 2), 8)


def pair_run(head_dim: int, rotary_dim: int) -> int:
    """How many first (or second) members of pairs surely lie in a row, neox style."""
    common = (head_dim // 2) | (rotary_dim // 2)
    return min(common & -common, 16)


def rotate_gather(
    q: torch.Tensor,
    rows: torch.Tensor,
    position_offsets: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    *,
    is_neox_style: bool,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute ``out[i] = R(-position_offsets[i]) q[rows[i]]``.

    Args:
        q: rotated queries, ``[num_tokens, num_qo_heads, head_dim]``.
        rows: int32 or int64 ``[num_rows]``, tokens of ``q``, in any order, repeats allowed.
        position_offsets: int32 ``[num_rows]``, Δ of each row, ``|Δ| < max_position``.
        cos_sin_cache: float32 ``[max_position, rotary_dim]``, cosines and then sines.
        is_neox_style: the model's rotary pairing.
        out: ``[num_rows, num_qo_heads, head_dim]``; allocated in the dtype of ``q`` if absent.

    Returns:
        ``out``.

    Raises:
        ValueError: a shape or dtype that is not as above; names the argument.
    """
    num_heads, head_dim = q.shape[1:]
    if out is None:
        out = q.new_empty((len(rows), num_heads, head_dim))
    check_shape("position_offsets", position_offsets, (len(rows),))
    check_shape("out", out, (len(rows), num_heads, head_dim))
    check_dtype("rows", rows, torch.int32, torch.int64)
    check_dtype("position_offsets", position_offsets, torch.int32)
    check_rotary_table(cos_sin_cache, head_dim)
    check_strides(q=q, out=out)
    if len(rows) == 0:
        return out
    rotary_dim = cos_sin_cache.shape[1]
    _rotate_gather_kernel[(triton.cdiv(len(rows), BLOCK_ROWS), num_heads)](
        q=q,
        out=out,
        rows=rows,
        offsets=position_offsets,
        cos_sin_cache=cos_sin_cache,
        num_rows=len(rows),
        stride_qt=q.stride(0),
        stride_qh=q.stride(1),
        stride_ot=out.stride(0),
        stride_oh=out.stride(1),
        HEAD_DIM=head_dim,
        HALF_D=half_block(head_dim),
        ROTARY_DIM=rotary_dim,
        IS_NEOX=is_neox_style,
        VEC=pair_run(head_dim, rotary_dim),
        BLOCK_ROWS=BLOCK_ROWS,
        num_warps=4,
    )
    return out
