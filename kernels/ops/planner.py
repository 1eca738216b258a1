"""From ragged query segments and key spans to work units (``units.py``).

Pure NumPy, built once per forward on the host and shared by all layers. Three choices:

- *Tiles*: a query segment is cut into tiles of whole tokens; in decoding, rows of
  different requests that hold the same span become one item (docs/design.md, "Kernels").
- *Splits*: a tile's keys are cut into as many units as even out the device, counted in
  key tiles, none of which holds keys of two spans.
- *Order*: the longest units start first; units that read the same keys start together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglang_lazy.kernels.config import LaunchConfig
from sglang_lazy.kernels.tiles import (
    QueryTiles,
    choose_splits,
    count_key_tiles,
    cut_units,
    item_tiles,
    ranges,
    segment_tiles,
)


@dataclass(frozen=True)
class HostPlan:
    """Work units and what they point to; NumPy arrays.

    Attributes:
        config: tile sizes that the units were cut for.
        num_items: item units, which come first.
        units: int32 ``[num_units, len(UNIT_FIELDS)]``.
        item_rows: int32, rows of ``q`` in the order of the item units.
        item_offsets: int32, Δ of each.
        span_start: int64, first entry of each span in ``kv_indices``.
        span_len: int32.
        position_offsets: int32, Δ of each span; unused in items.
        merge_rows: int32, rows whose result is combined from partial ones.
        merge_indptr: int32 ``[len(merge_rows) + 1]``; a row without any is set to zero.
        merge_indices: int32, partial results of each such row.
        num_partials: partial results that the units write.
    """

    config: LaunchConfig
    num_items: int
    units: np.ndarray
    item_rows: np.ndarray
    item_offsets: np.ndarray
    span_start: np.ndarray
    span_len: np.ndarray
    position_offsets: np.ndarray
    merge_rows: np.ndarray
    merge_indptr: np.ndarray
    merge_indices: np.ndarray
    num_partials: int

    @property
    def max_offset(self) -> int:
        """Largest |Δ|: the rotary table must hold it."""
        return max(
            (int(np.abs(a).max()) for a in (self.item_offsets, self.position_offsets) if a.size),
            default=0,
        )


def plan_extend(
    qo_indptr: np.ndarray,
    span_indptr: np.ndarray,
    span_start: np.ndarray,
    span_len: np.ndarray,
    position_offsets: np.ndarray,
    *,
    config: LaunchConfig,
    group: int,
    num_kv_heads: int,
    num_sms: int,
) -> HostPlan:
    """Segment units for the segments of an :class:`AttentionPlan`, whose fields these are.

    Args:
        config: tile sizes; its item flavour is not used.
        group: query heads per KV head.
        num_kv_heads: each unit runs once per KV head.
        num_sms: multiprocessors to keep busy.
    """
    tiles = segment_tiles(qo_indptr, span_indptr, span_len, config, group)
    spans = (span_start, span_len, position_offsets)
    slots = num_sms * config.programs_per_sm
    return _build(config, None, tiles, _NO_ROWS, _NO_ROWS, spans, num_kv_heads, slots, _NO_ROWS)


def plan_decode(
    span_indptr: np.ndarray,
    span_start: np.ndarray,
    span_len: np.ndarray,
    position_offsets: np.ndarray,
    span_ids: np.ndarray | None,
    *,
    config: LaunchConfig,
    group: int,
    num_kv_heads: int,
    num_sms: int,
    num_padded_rows: int = 0,
) -> HostPlan:
    """Units for one query row per request; spans that several rows hold become items.

    Args:
        span_ids: int64 ``[num_spans]``: spans of equal id and length hold the same keys
            (the first slot is one such id). None: nothing is grouped.
        config: tile sizes, with the item flavour if anything may be grouped.
        group: query heads per KV head.
        num_kv_heads: each unit runs once per KV head.
        num_sms: multiprocessors to keep busy.
        num_padded_rows: rows after the last request, whose output is set to zero.
    """
    num_requests = len(span_indptr) - 1
    rows = np.repeat(np.arange(num_requests, dtype=np.int32), np.diff(span_indptr))
    is_shared, item = _shared_spans(span_indptr, span_len, span_ids, config)
    # Spans that a request holds alone stay in its list, in order; then one span per item.
    alone = ~is_shared
    shared = np.flatnonzero(is_shared)
    order = shared[np.argsort(item[shared], kind="stable")]
    sizes: np.ndarray = np.bincount(item[shared]) if len(shared) else _NO_ROWS
    leaders = order[np.cumsum(sizes) - sizes] if len(shared) else order
    kept = np.concatenate((np.flatnonzero(alone), leaders))
    spans = (span_start[kept], span_len[kept], position_offsets[kept])
    alone_indptr = np.concatenate(
        ([0], np.cumsum(np.bincount(rows[alone], minlength=num_requests)))
    )
    qo_indptr = np.arange(num_requests + 1)
    segments = segment_tiles(qo_indptr, alone_indptr, spans[1], config, group)
    items = None
    if len(shared):
        items = item_tiles(sizes, int(alone.sum()), spans[1], config, group)
    slots = num_sms * config.programs_per_sm
    padding = np.arange(num_requests, num_requests + num_padded_rows, dtype=np.int32)
    return _build(
        config,
        items,
        segments,
        rows[order],
        position_offsets[order],
        spans,
        num_kv_heads,
        slots,
        padding,
    )


_NO_ROWS = np.zeros(0, np.int32)


def _shared_spans(
    span_indptr: np.ndarray,
    span_len: np.ndarray,
    span_ids: np.ndarray | None,
    config: LaunchConfig,
) -> tuple[np.ndarray, np.ndarray]:
    """Which spans are worth grouping, and the number of each one's item."""
    none = np.zeros(len(span_len), bool)
    if span_ids is None or not config.item_m:
        return none, none.astype(np.int64)
    candidate = span_len >= config.min_item_keys
    candidate[span_indptr[1:] - 1] = False  # a request's own keys are its own
    keys = span_ids.astype(np.int64) * (1 << 31) + span_len
    _, inverse, counts = np.unique(keys[candidate], return_inverse=True, return_counts=True)
    is_shared = none
    is_shared[np.flatnonzero(candidate)[counts[inverse] > 1]] = True
    item = np.zeros(len(span_len), np.int64)
    numbers = np.cumsum(counts > 1) - 1
    item[candidate] = numbers[inverse]
    return is_shared, item


def _build(
    config: LaunchConfig,
    items: QueryTiles | None,
    segments: QueryTiles,
    item_rows: np.ndarray,
    item_offsets: np.ndarray,
    spans: tuple[np.ndarray, np.ndarray, np.ndarray],
    num_kv_heads: int,
    slots: int,
    padding: np.ndarray,
) -> HostPlan:
    flavours = [segments] if items is None else [items, segments]
    weights = [config.segment_cost] if items is None else [1.0, config.segment_cost]
    lengths = [count_key_tiles(t, spans[1]) for t in flavours]
    costs = np.concatenate([n * w for (_, n), w in zip(lengths, weights, strict=True)])
    splits = choose_splits(costs, num_kv_heads, slots, config.unit_cost)
    parts = []
    for tiles, (before, totals) in zip(flavours, lengths, strict=True):
        parts.append(cut_units(tiles, before, totals, splits[: len(totals)], spans[1]))
        splits = splits[len(totals) :]
    units = np.concatenate(parts)
    num_items = 0 if items is None else len(parts[0])
    rows, owners = _rows_of_units(units, num_items, item_rows)
    # A unit whose rows have no other writes the output itself. All rows of a unit are
    # alike in this; those of items always have another, for their own keys.
    units_of_row = np.bincount(rows)
    is_partial = units_of_row[rows[np.cumsum(units[:, 1]) - units[:, 1]]] > 1
    held = np.where(is_partial, units[:, 1], 0)
    units[:, 7] = np.where(is_partial, np.cumsum(held) - held, -1)
    # Partial results are numbered in the order of units and rows, as these are.
    merged = rows[is_partial[owners]]
    merge_indices = np.argsort(merged, kind="stable")
    merge_rows, counts = np.unique(merged, return_counts=True)
    merge_rows = np.concatenate((merge_rows, padding))
    counts = np.concatenate((counts, np.zeros(len(padding), counts.dtype)))
    return HostPlan(
        config=config,
        num_items=num_items,
        units=units.astype(np.int32),
        item_rows=item_rows.astype(np.int32),
        item_offsets=item_offsets.astype(np.int32),
        span_start=spans[0].astype(np.int64),
        span_len=spans[1].astype(np.int32),
        position_offsets=spans[2].astype(np.int32),
        merge_rows=merge_rows.astype(np.int32),
        merge_indptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        merge_indices=merge_indices.astype(np.int32),
        num_partials=int(held.sum()),
    )


def _rows_of_units(
    units: np.ndarray, num_items: int, item_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all units, one after another, and the unit of each."""
    owners = np.repeat(np.arange(len(units)), units[:, 1])
    rows = units[owners, 0] + ranges(units[:, 1])
    of_item = owners < num_items
    rows[of_item] = item_rows[rows[of_item]]
    return rows, owners
