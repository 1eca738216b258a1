"""Cutting query rows into tiles, and each tile's keys into work units (``units.py``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglang_lazy.kernels.config import LaunchConfig
from sglang_lazy.kernels.units import NO_LIMIT, UNIT_FIELDS

WAVES = (1, 2, 3, 4, 6, 8)


@dataclass(frozen=True)
class QueryTiles:
    """Query tiles, each with the keys that it attends to as a run of key tiles.

    Spans of one tile are consecutive. ``own_len`` keys of the last one are seen by the
    tile; ``first_limit`` of them by its first row.
    """

    row_begin: np.ndarray
    num_rows: np.ndarray
    first_span: np.ndarray
    last_span: np.ndarray
    own_len: np.ndarray
    first_limit: np.ndarray
    group: np.ndarray  # tiles of one group read the same keys
    block_n: int


def segment_tiles(
    qo_indptr: np.ndarray,
    span_indptr: np.ndarray,
    span_len: np.ndarray,
    config: LaunchConfig,
    group: int,
) -> QueryTiles:
    tokens = config.segment_m // group
    num_queries = np.diff(qo_indptr).astype(np.int64)
    # A segment without spans is another kernel's.
    num_tiles = np.where(np.diff(span_indptr) > 0, -(-num_queries // tokens), 0)
    segment = np.repeat(np.arange(len(num_queries)), num_tiles)
    first_token = ranges(num_tiles) * tokens
    num_rows = np.minimum(tokens, num_queries[segment] - first_token)
    last_span = span_indptr[1:].astype(np.int64)[segment] - 1
    before = span_len[last_span].astype(np.int64) - num_queries[segment] + first_token
    return QueryTiles(
        row_begin=qo_indptr[:-1].astype(np.int64)[segment] + first_token,
        num_rows=num_rows,
        first_span=span_indptr[:-1].astype(np.int64)[segment],
        last_span=last_span,
        own_len=before + num_rows,
        first_limit=before + 1,
        group=segment,
        block_n=config.segment_n,
    )


def item_tiles(
    sizes: np.ndarray, first_span: int, span_len: np.ndarray, config: LaunchConfig, group: int
) -> QueryTiles:
    tokens = config.item_m // group
    num_tiles = -(-sizes // tokens)
    item = np.repeat(np.arange(len(sizes)), num_tiles)
    first_row = ranges(num_tiles) * tokens
    span = first_span + item
    return QueryTiles(
        row_begin=(np.cumsum(sizes) - sizes)[item] + first_row,
        num_rows=np.minimum(tokens, sizes[item] - first_row),
        first_span=span,
        last_span=span,
        own_len=span_len[span].astype(np.int64),
        first_limit=np.full(len(item), NO_LIMIT, np.int64),
        group=item,
        block_n=config.item_n,
    )


def count_key_tiles(tiles: QueryTiles, span_len: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Key tiles before each span, over all spans; and each query tile's number of key tiles."""
    ends = np.cumsum(-(-span_len.astype(np.int64) // tiles.block_n))
    before = np.concatenate(([0], ends))
    others = before[tiles.last_span] - before[tiles.first_span]
    return before, others + -(-tiles.own_len // tiles.block_n)


def choose_splits(costs: np.ndarray, num_kv_heads: int, slots: int, unit_cost: float) -> np.ndarray:
    """Units that each tile is cut into, so that the last program ends as early as possible.

    Args:
        costs: of each tile, in key tiles.
        num_kv_heads: each unit runs once per KV head.
        slots: programs that run at a time.
        unit_cost: fixed cost of a unit, in key tiles.
    """
    if len(costs) == 0:
        return np.ones(0, np.int64)
    total = costs.sum() * num_kv_heads
    best, best_time = np.ones(len(costs), np.int64), np.inf
    for waves in WAVES:
        target = max(total / (slots * waves), 2 * unit_cost)
        splits = np.maximum(1, np.floor(costs / target + 1e-6)).astype(np.int64)
        unit = costs / splits + unit_cost
        longest = unit.max()
        num_units = splits.sum() * num_kv_heads
        busy = (unit * splits).sum() * num_kv_heads / slots
        time = min(-(-num_units // slots) * longest, busy + longest * (1 - 1 / slots))
        if time < best_time:
            best, best_time = splits, time
    return best


def cut_units(
    tiles: QueryTiles,
    before: np.ndarray,
    totals: np.ndarray,
    splits: np.ndarray,
    span_len: np.ndarray,
) -> np.ndarray:
    """Cut each tile's key tiles into its number of units, longest first."""
    splits = np.minimum(splits, totals)
    tile = np.repeat(np.arange(len(splits)), splits)
    part = ranges(splits)
    begin = part * totals[tile] // splits[tile]
    end = (part + 1) * totals[tile] // splits[tile]
    first = before[tiles.first_span[tile]] + begin
    last = before[tiles.first_span[tile]] + end - 1
    first_span = np.searchsorted(before, first, side="right") - 1
    last_span = np.searchsorted(before, last, side="right") - 1
    is_own = last_span == tiles.last_span[tile]
    reach = (last - before[last_span] + 1) * tiles.block_n
    units = np.empty((len(tile), len(UNIT_FIELDS)), np.int64)
    units[:, 0] = tiles.row_begin[tile]
    units[:, 1] = tiles.num_rows[tile]
    units[:, 2] = first_span
    units[:, 3] = last_span
    units[:, 4] = (first - before[first_span]) * tiles.block_n
    units[:, 5] = np.minimum(reach, np.where(is_own, tiles.own_len[tile], span_len[last_span]))
    units[:, 6] = np.where(is_own, tiles.first_limit[tile], NO_LIMIT)
    units[:, 8] = end - begin
    return units[np.lexsort((part, tiles.group[tile], begin - end))]


def ranges(lengths: np.ndarray) -> np.ndarray:
    """0, 1, ..., lengths[0] - 1, 0, 1, ..., lengths[1] - 1, ..."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
