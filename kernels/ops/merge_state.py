"""Combine each row's partial attention results by their log-sum-exp.

    out = sum_j exp(lse_j - lse) o_j,   lse = log sum_j exp(lse_j)

in float32, over a ragged list of partial results per row. A row without any becomes
zero, with ``lse`` -inf. One more result per row may come from elsewhere (another
kernel's output): ``external_o``, ``external_lse``.

Layouts: ``partial_o`` ``[num_partials, num_qo_heads, head_dim]``, ``out`` and
``external_o`` ``[num_tokens, num_qo_heads, head_dim]``; ``lse`` in natural logarithm.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglang_lazy.kernels.launch import check_dtype, check_shape, check_strides

BLOCK_PARTIALS = 8
NUM_WARPS = 2


@triton.jit
def _accumulate(acc, total, top, o, lse):
    """One step of the online sum: o [N, BLOCK_D] with lse [N]."""
    new_top = tl.maximum(top, tl.max(lse, 0))
    # Nothing seen so far: any finite number will do.
    shift = tl.where(new_top == float("-inf"), 0.0, new_top)
    weight = tl.exp(lse - shift)
    rescale = tl.exp(top - shift)
    acc = acc * rescale + tl.sum(o.to(tl.float32) * weight[:, None], 0)
    return acc, total * rescale + tl.sum(weight, 0), new_top


@triton.jit
def _merge_state_kernel(
    partial_o,
    partial_lse,
    out,
    lse,
    external_o,
    external_lse,
    merge_rows,
    merge_indptr,
    merge_indices,
    num_merge_rows,  # on the device, so that a graph can be replayed
    num_qo_heads,
    stride_ot,
    stride_oh,
    stride_et,
    stride_eh,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_PARTIALS: tl.constexpr,
    HAS_LSE: tl.constexpr,
    HAS_EXTERNAL: tl.constexpr,
):
    item = tl.program_id(0)
    head = tl.program_id(1)
    if item < tl.load(num_merge_rows):
        row = tl.load(merge_rows + item).to(tl.int64)
        begin = tl.load(merge_indptr + item)
        end = tl.load(merge_indptr + item + 1)
        d = tl.arange(0, BLOCK_D)
        in_head = d < HEAD_DIM
        acc = tl.zeros([BLOCK_D], tl.float32)
        total = 0.0
        top = float("-inf")
        if HAS_EXTERNAL:
            one = tl.arange(0, 1)
            e_lse = tl.load(external_lse + row * num_qo_heads + head + one)
            e_ptrs = external_o + row * stride_et + head * stride_eh + one[:, None] + d[None, :]
            e = tl.load(e_ptrs, mask=in_head[None, :], other=0.0)
            acc, total, top = _accumulate(acc, total, top, e, e_lse)
        for start in range(begin, end, BLOCK_PARTIALS):
            j = start + tl.arange(0, BLOCK_PARTIALS)
            index = tl.load(merge_indices + j, mask=j < end, other=0).to(tl.int64)
            place = index * num_qo_heads + head
            p_lse = tl.load(partial_lse + place, mask=j < end, other=float("-inf"))
            # [BLOCK_PARTIALS, BLOCK_D]
            p = tl.load(
                partial_o + (place * HEAD_DIM)[:, None] + d[None, :],
                mask=(j < end)[:, None] & in_head[None, :],
                other=0.0,
            )
            acc, total, top = _accumulate(acc, total, top, p, p_lse)
        acc = acc / tl.where(total > 0, total, 1.0)
        target = out + row * stride_ot + head * stride_oh + d
        tl.store(target, acc.to(out.dtype.element_ty), mask=in_head)
        if HAS_LSE:
            tl.store(lse + row * num_qo_heads + head, top + tl.log(total))


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
    """Write the combined result of each row in ``merge_rows``; other rows stay as they are.

    Args:
        partial_o: partial results, ``[num_partials, num_qo_heads, head_dim]``, contiguous.
        partial_lse: float32 ``[num_partials, num_qo_heads]``.
        merge_rows: int32 ``[n]``, rows of ``out``, each at most once.
        merge_indptr: int32 ``[n + 1]``, partial results of each.
        merge_indices: int32, their places in ``partial_o``.
        out: ``[num_tokens, num_qo_heads, head_dim]``.
        num_merge_rows: optional int32 ``[1]``: only so many of ``merge_rows`` count.
        lse: optional float32 ``[num_tokens, num_qo_heads]``, receives the log-sum-exp.
        external_o: optional, like ``out``: one more result for every row.
        external_lse: float32 ``[num_tokens, num_qo_heads]``, given with ``external_o``.

    Returns:
        ``out``.

    Raises:
        ValueError: a shape or dtype that is not as above; names the argument.
    """
    num_tokens, num_heads, head_dim = out.shape
    check_shape("partial_o", partial_o, (len(partial_o), num_heads, head_dim))
    check_shape("partial_lse", partial_lse, (len(partial_o), num_heads))
    check_shape("merge_indptr", merge_indptr, (len(merge_rows) + 1,))
    for name, tensor in (("merge_rows", merge_rows), ("merge_indices", merge_indices)):
        check_dtype(name, tensor, torch.int32)
    for name, optional in (("lse", lse), ("external_lse", external_lse)):
        if optional is not None:
            check_shape(name, optional, (num_tokens, num_heads))
            check_dtype(name, optional, torch.float32)
    if (external_o is None) != (external_lse is None):
        raise ValueError("external_o and external_lse must be given together")
    if external_o is not None:
        check_shape("external_o", external_o, tuple(out.shape))
        check_strides(external_o=external_o)
    check_strides(out=out)
    if len(merge_rows) == 0:
        return out
    if num_merge_rows is None:
        num_merge_rows = torch.full((1,), len(merge_rows), dtype=torch.int32, device=out.device)
    external = out if external_o is None else external_o
    _merge_state_kernel[(len(merge_rows), num_heads)](
        partial_o=partial_o,
        partial_lse=partial_lse,
        out=out,
        lse=partial_lse if lse is None else lse,
        external_o=external,
        external_lse=partial_lse if external_lse is None else external_lse,
        merge_rows=merge_rows,
        merge_indptr=merge_indptr,
        merge_indices=merge_indices,
        num_merge_rows=num_merge_rows,
        num_qo_heads=num_heads,
        stride_ot=out.stride(0),
        stride_oh=out.stride(1),
        stride_et=external.stride(0),
        stride_eh=external.stride(1),
        HEAD_DIM=head_dim,
        BLOCK_D=triton.next_power_of_2(head_dim),
        BLOCK_PARTIALS=BLOCK_PARTIALS,
        HAS_LSE=lse is not None,
        HAS_EXTERNAL=external_o is not None,
        num_warps=NUM_WARPS,
    )
    return out
