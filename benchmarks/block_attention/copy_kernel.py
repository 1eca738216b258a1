"""Copy cached keys and values to other slots, and rotate the keys forward: one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK_TOKENS = 16


@triton.jit
def _copy_kernel(
    k_pointers,
    v_pointers,
    cos_sin_cache,
    source,
    target,
    offsets,
    num_tokens,
    DTYPE: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    layer = tl.program_id(1)
    k = tl.load(k_pointers + layer).to(tl.pointer_type(DTYPE))
    v = tl.load(v_pointers + layer).to(tl.pointer_type(DTYPE))
    HALF: tl.constexpr = HEAD_DIM // 2
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = token < num_tokens
    old = tl.load(source + token, mask=valid, other=0)
    new = tl.load(target + token, mask=valid, other=0)
    offset = tl.load(offsets + token, mask=valid, other=0)
    half = tl.arange(0, HALF)
    table = cos_sin_cache + tl.abs(offset)[:, None] * HEAD_DIM + half[None, :]
    cos = tl.load(table, mask=valid[:, None], other=0.0)
    sin = tl.load(table + HALF, mask=valid[:, None], other=0.0)
    sin = tl.where(offset[:, None] < 0, -sin, sin)
    whole = tl.arange(0, HEAD_DIM)
    for head in tl.static_range(NUM_HEADS):
        at = (old[:, None] * NUM_HEADS + head) * HEAD_DIM
        to = (new[:, None] * NUM_HEADS + head) * HEAD_DIM
        x = tl.load(k + at + half[None, :], mask=valid[:, None], other=0.0).to(tl.float32)
        y = tl.load(k + at + HALF + half[None, :], mask=valid[:, None], other=0.0).to(tl.float32)
        tl.store(k + to + half[None, :], (x * cos - y * sin).to(DTYPE), mask=valid[:, None])
        tl.store(k + to + HALF + half[None, :], (y * cos + x * sin).to(DTYPE), mask=valid[:, None])
        value = tl.load(v + at + whole[None, :], mask=valid[:, None])
        tl.store(v + to + whole[None, :], value, mask=valid[:, None])


def copy_rotated(
    pool: object,
    cos_sin_cache: torch.Tensor,
    source: torch.Tensor,
    target: torch.Tensor,
    offsets: torch.Tensor,
) -> None:
    """Copy tokens of every layer; full neox rotation.

    Args:
        pool: SGLang's MHA pool, 16-bit on a GPU, anything on the CPU.
        cos_sin_cache: float32 ``[max_position, head_dim]``.
        source: int64 ``[n]``, slots to read.
        target: int64 ``[n]``, slots to write; none of them is read.
        offsets: int64 ``[n]``, how far each token's position moves.
    """
    k_buffer = pool.get_key_buffer(0)
    if not k_buffer.is_cuda:
        _copy_on_cpu(pool, cos_sin_cache, source, target, offsets)
        return
    _, num_heads, head_dim = k_buffer.shape
    grid = (triton.cdiv(len(source), BLOCK_TOKENS), len(pool.k_data_ptrs))
    _copy_kernel[grid](
        pool.k_data_ptrs,
        pool.v_data_ptrs,
        cos_sin_cache,
        source,
        target,
        offsets,
        len(source),
        DTYPE=tl.bfloat16 if k_buffer.dtype == torch.bfloat16 else tl.float16,
        NUM_HEADS=num_heads,
        HEAD_DIM=head_dim,
        BLOCK=BLOCK_TOKENS,
        num_warps=4,
    )


def _copy_on_cpu(
    pool: object,
    cos_sin_cache: torch.Tensor,
    source: torch.Tensor,
    target: torch.Tensor,
    offsets: torch.Tensor,
) -> None:
    cos, sin = cos_sin_cache[offsets.abs(), None].chunk(2, -1)
    sin = torch.where(offsets[:, None, None] < 0, -sin, sin)
    for layer in range(pool.layer_num):
        k, v = pool.get_key_buffer(layer), pool.get_value_buffer(layer)
        x, y = k[source].float().chunk(2, -1)
        k[target] = torch.cat((x * cos - y * sin, y * cos + x * sin), -1).to(k.dtype)
        v[target] = v[source]
