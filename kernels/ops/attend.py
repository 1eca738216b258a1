"""Attention over ragged key spans, work unit by work unit.

A work unit (``units.py``) is a tile of query rows and a range of keys, for every KV head.
With Δ the position offset of a key's span (docs/design.md, "What is computed"), it computes

    o = softmax over its keys k of (sm_scale * <R(-Δ) q, k>), times v

and the log-sum-exp of its scores.

A tile holds the rows of one KV head's whole group side by side (GQA packing), so that
K and V are read once for all of them. Keys are found through ``kv_indices`` (page size
1). One launch serves both flavours; its grid may be smaller or larger than the number of
units, which is read on the device: programs stride over the units.

Layouts: ``q``, ``out`` ``[num_tokens, num_qo_heads, head_dim]``; buffers ``[num_slots,
num_kv_heads, head_dim]``; ``partial_o`` ``[num_partials, num_qo_heads, head_dim]``.
``lse`` and ``partial_lse`` are in natural logarithm; inside, scores are in base 2.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sglang_lazy.kernels.rotate_gather import pair_dimension, rotate_pairs
from sglang_lazy.kernels.units import NO_LIMIT, UNIT_FIELDS

_NUM_FIELDS = tl.constexpr(len(UNIT_FIELDS))
_NO_LIMIT = tl.constexpr(NO_LIMIT)
_LOG2_E = tl.constexpr(1.4426950408889634)
_LN_2 = tl.constexpr(0.6931471805599453)
# Start of the running maximum: a row that sees no key of a tile keeps it, with no NaN.
_LOWEST = tl.constexpr(-1.0e38)


@triton.jit
def _tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp2(2.0 * _LOG2_E * x))


@triton.jit
def _as_query(x, dtype: tl.constexpr):
    """K or V in the dtype of the queries; fp8 goes through float16, which holds it exactly."""
    if x.dtype.primitive_bitwidth == 8:
        x = x.to(tl.float16)
    return x.to(dtype)


@triton.jit
def _attend_unit(
    unit,  # the unit's fields
    kv_head,
    num_qo_heads,
    queries,
    keys,
    items,
    spans,
    cos_sin_cache,
    outputs,
    scales,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    V_HEAD_DIM: tl.constexpr,
    HALF_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    STRIDE_KN: tl.constexpr,
    STRIDE_VN: tl.constexpr,
    ROTARY_DIM: tl.constexpr,
    IS_NEOX: tl.constexpr,
    VEC: tl.constexpr,
    HAS_CAP: tl.constexpr,
    HAS_LSE: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    IS_ITEM: tl.constexpr,
):
    q, stride_qt, stride_qh = queries
    k_buffer, stride_kh, v_buffer, stride_vh = keys
    item_rows, item_offsets = items
    span_start, span_len, position_offsets, kv_indices = spans
    out, stride_ot, stride_oh, lse, partial_o, partial_lse = outputs
    score_scale, logit_cap, v_scale = scales
    q_dtype = q.dtype.element_ty

    row_begin = tl.load(unit)
    num_rows = tl.load(unit + 1)
    span = tl.load(unit + 2)
    last_span = tl.load(unit + 3)
    key = tl.load(unit + 4)
    unit_end = tl.load(unit + 5)
    first_limit = tl.load(unit + 6)
    partial_begin = tl.load(unit + 7)
    num_tiles = tl.load(unit + 8)

    r = tl.arange(0, BLOCK_M)
    token = r // GROUP
    head = kv_head * GROUP + r % GROUP
    row_mask = token < num_rows
    if IS_ITEM:
        row = tl.load(item_rows + row_begin + token, mask=row_mask, other=0).to(tl.int64)
        offset = tl.load(item_offsets + row_begin + token, mask=row_mask, other=0)
    else:
        row = (row_begin + token).to(tl.int64)
    q_rows = q + row * stride_qt + head * stride_qh
    k_head = k_buffer + kv_head.to(tl.int64) * stride_kh
    v_head = v_buffer + kv_head.to(tl.int64) * stride_vh

    # [BLOCK_M, HALF_D] first and second members of rotary pairs
    i = tl.arange(0, HALF_D)
    q_mask = row_mask[:, None] & (i < HEAD_DIM // 2)[None, :]
    d_first = pair_dimension(i, False, HEAD_DIM, ROTARY_DIM, IS_NEOX, VEC)
    d_second = pair_dimension(i, True, HEAD_DIM, ROTARY_DIM, IS_NEOX, VEC)
    q_first = tl.load(q_rows[:, None] + d_first[None, :], mask=q_mask, other=0.0)
    q_second = tl.load(q_rows[:, None] + d_second[None, :], mask=q_mask, other=0.0)
    # The order in which Q and K are multiplied: pairs side by side, or all first members
    # before all second ones.
    n = tl.arange(0, BLOCK_N)
    c = tl.arange(0, 2 * HALF_D)
    if IS_NEOX:
        d = pair_dimension(c % HALF_D, c >= HALF_D, HEAD_DIM, ROTARY_DIM, IS_NEOX, VEC)
        in_head = c % HALF_D < HEAD_DIM // 2
    else:
        d = c
        in_head = c < HEAD_DIM
    dv = tl.arange(0, BLOCK_DV)

    tile = tl.zeros([BLOCK_M, 2 * HALF_D], q_dtype)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    row_max = tl.full([BLOCK_M], _LOWEST, tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    start = tl.load(span_start + span)
    end = tl.where(span == last_span, unit_end, tl.load(span_len + span))
    slot = tl.load(kv_indices + start + key + n, mask=key + n < end, other=0)
    is_first = True
    for _ in tl.range(0, num_tiles):
        # Where the following tile lies. Slots are loaded one tile ahead: then K and V are
        # the only loads that the compiler pipelines, and the stream of keys does not
        # break between spans.
        leaves = key + BLOCK_N >= end
        next_span = tl.minimum(span + leaves.to(tl.int32), last_span)
        next_key = tl.where(leaves, 0, key + BLOCK_N)
        next_start = tl.load(span_start + next_span)
        next_end = tl.where(next_span == last_span, unit_end, tl.load(span_len + next_span))
        next_slot = tl.load(
            kv_indices + next_start + next_key + n, mask=next_key + n < next_end, other=0
        )

        if is_first:
            if not IS_ITEM:
                offset = tl.load(position_offsets + span)
            first, second = rotate_pairs(
                q_first, q_second, offset, row_mask, cos_sin_cache, HALF_D, ROTARY_DIM, IS_ITEM
            )
            pairs = tl.join(first.to(q_dtype), second.to(q_dtype))
            if IS_NEOX:
                pairs = tl.permute(pairs, (0, 2, 1))
            tile = tl.reshape(pairs, [BLOCK_M, 2 * HALF_D])

        inside = key + n < end
        k_mask = inside[:, None] & in_head[None, :]
        k_rows = k_head + slot.to(tl.int64)[:, None] * STRIDE_KN
        # [BLOCK_M, BLOCK_N]
        k = _as_query(tl.load(k_rows + d[None, :], mask=k_mask, other=0.0), q_dtype)
        score = tl.dot(tile, tl.trans(k), input_precision=PRECISION)
        if HAS_CAP:
            score = _tanh(score * score_scale) * logit_cap
        is_last = span == last_span
        if key + BLOCK_N > tl.minimum(end, tl.where(is_last, first_limit, _NO_LIMIT)):
            limit = tl.minimum(end, tl.where(is_last, first_limit + token, _NO_LIMIT))
            score = tl.where((key + n)[None, :] < limit[:, None], score, float("-inf"))
        if HAS_CAP:
            new_max = tl.maximum(row_max, tl.max(score, 1))
            p = tl.exp2(score - new_max[:, None])
        else:
            new_max = tl.maximum(row_max, tl.max(score, 1) * score_scale)
            p = tl.exp2(score * score_scale - new_max[:, None])
        rescale = tl.exp2(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max
        # [BLOCK_N, BLOCK_DV]
        v_rows = v_head + slot.to(tl.int64)[:, None] * STRIDE_VN
        v_mask = inside[:, None] & (dv < V_HEAD_DIM)[None, :]
        v = _as_query(tl.load(v_rows + dv[None, :], mask=v_mask, other=0.0), q_dtype)
        acc = acc * rescale[:, None]
        acc = tl.dot(p.to(q_dtype), v, acc, input_precision=PRECISION)
        is_first = leaves
        span = next_span
        key = next_key
        end = next_end
        slot = next_slot

    sees_keys = row_sum > 0
    unit_lse = tl.where(sees_keys, (row_max + tl.log2(row_sum)) * _LN_2, float("-inf"))
    acc = acc * (v_scale / tl.where(sees_keys, row_sum, 1.0))[:, None]
    o_mask = row_mask[:, None] & (dv < V_HEAD_DIM)[None, :]
    if partial_begin < 0:
        o_rows = out + row * stride_ot + head * stride_oh
        tl.store(o_rows[:, None] + dv[None, :], acc.to(out.dtype.element_ty), mask=o_mask)
        if HAS_LSE:
            tl.store(lse + row * num_qo_heads + head, unit_lse, mask=row_mask)
    else:
        place = (partial_begin + token).to(tl.int64) * num_qo_heads + head
        p_rows = partial_o + place * V_HEAD_DIM
        tl.store(p_rows[:, None] + dv[None, :], acc.to(partial_o.dtype.element_ty), mask=o_mask)
        tl.store(partial_lse + place, unit_lse, mask=row_mask)


@triton.jit
def attend_kernel(
    q,
    k_buffer,
    v_buffer,
    out,
    lse,
    partial_o,
    partial_lse,
    unit_counts,  # item units, all units; read here so that a graph can be replayed
    units,  # item units first
    item_rows,
    item_offsets,
    span_start,
    span_len,
    position_offsets,
    kv_indices,
    cos_sin_cache,
    score_scale,
    logit_cap,
    v_scale,
    num_kv_heads,
    stride_qt,
    stride_qh,
    stride_kh,
    stride_vh,
    stride_ot,
    stride_oh,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    V_HEAD_DIM: tl.constexpr,
    HALF_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    STRIDE_KN: tl.constexpr,  # fixed by the KV pool's shape: makes an address a shift
    STRIDE_VN: tl.constexpr,
    ROTARY_DIM: tl.constexpr,
    IS_NEOX: tl.constexpr,
    VEC: tl.constexpr,
    HAS_CAP: tl.constexpr,
    HAS_LSE: tl.constexpr,
    PRECISION: tl.constexpr,
    ITEM_M: tl.constexpr,  # rows of a tile; 0: this launch has no item units
    ITEM_N: tl.constexpr,
    SEGMENT_M: tl.constexpr,
    SEGMENT_N: tl.constexpr,
):
    queries = (q, stride_qt, stride_qh)
    keys = (k_buffer, stride_kh, v_buffer, stride_vh)
    items = (item_rows, item_offsets)
    spans = (span_start, span_len, position_offsets, kv_indices)
    outputs = (out, stride_ot, stride_oh, lse, partial_o, partial_lse)
    scales = (score_scale, logit_cap, v_scale)
    num_items = tl.load(unit_counts)
    num_programs = tl.load(unit_counts + 1) * num_kv_heads
    for i in tl.range(tl.program_id(0), num_programs, tl.num_programs(0), num_stages=1):
        # Heads of one unit run side by side: their keys are neighbours in memory.
        index = i // num_kv_heads
        kv_head = i % num_kv_heads
        unit = units + index * _NUM_FIELDS
        if ITEM_M > 0 and index < num_items:
            _attend_unit(
                unit, kv_head, num_kv_heads * GROUP,
                queries, keys, items, spans, cos_sin_cache, outputs, scales,
                GROUP, HEAD_DIM, V_HEAD_DIM, HALF_D, BLOCK_DV, STRIDE_KN, STRIDE_VN,
                ROTARY_DIM, IS_NEOX, VEC, HAS_CAP, HAS_LSE, PRECISION,
                ITEM_M, ITEM_N, IS_ITEM=True,
            )  # fmt: skip
        if index >= num_items:
            _attend_unit(
                unit, kv_head, num_kv_heads * GROUP,
                queries, keys, items, spans, cos_sin_cache, outputs, scales,
                GROUP, HEAD_DIM, V_HEAD_DIM, HALF_D, BLOCK_DV, STRIDE_KN, STRIDE_VN,
                ROTARY_DIM, IS_NEOX, VEC, HAS_CAP, HAS_LSE, PRECISION,
                SEGMENT_M, SEGMENT_N, IS_ITEM=False,
            )  # fmt: skip
