"""Every row meets every one of its keys in exactly one unit, and units are even."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sglang_lazy.kernels.config import LaunchConfig
from sglang_lazy.kernels.planner import HostPlan, plan_decode, plan_extend
from sglang_lazy.kernels.tiles import choose_splits
from sglang_lazy.kernels.units import NO_LIMIT

HEADS = {"group": 4, "num_kv_heads": 8}


def seen_by_rows(plan: HostPlan) -> dict[int, Counter[tuple[int, int]]]:
    """Per row of q, how often it meets each (place in kv_indices, position offset)."""
    seen: dict[int, Counter[tuple[int, int]]] = {}
    block_n = (plan.config.item_n, plan.config.segment_n)
    for u, unit in enumerate(plan.units.tolist()):
        row_begin, num_rows, first, last, begin, end, first_limit, _, num_tiles = unit
        is_item = u < plan.num_items
        tiles = 0
        for span in range(first, last + 1):
            lo = begin if span == first else 0
            hi = end if span == last else int(plan.span_len[span])
            tiles += -(-(hi - lo) // block_n[not is_item])
            for t in range(num_rows):
                row, offset = row_begin + t, int(plan.position_offsets[span])
                if is_item:
                    row = int(plan.item_rows[row_begin + t])
                    offset = int(plan.item_offsets[row_begin + t])
                limit = min(hi, first_limit + t) if span == last else hi
                start = int(plan.span_start[span])
                counter = seen.setdefault(row, Counter())
                counter.update((start + k, offset) for k in range(lo, limit))
        assert tiles == num_tiles
    return seen


def wanted(
    qo_indptr: np.ndarray,
    span_indptr: np.ndarray,
    span_start: np.ndarray,
    span_len: np.ndarray,
    offsets: np.ndarray,
) -> dict[int, Counter[tuple[int, int]]]:
    rows: dict[int, Counter[tuple[int, int]]] = {}
    for i in range(len(qo_indptr) - 1):
        n = qo_indptr[i + 1] - qo_indptr[i]
        for j in range(n):
            counter = rows.setdefault(int(qo_indptr[i] + j), Counter())
            for s in range(span_indptr[i], span_indptr[i + 1]):
                is_own = s == span_indptr[i + 1] - 1
                length = span_len[s] - n + j + 1 if is_own else span_len[s]
                start = int(span_start[s])
                counter.update((start + k, int(offsets[s])) for k in range(length))
    return rows


def check_partials(plan: HostPlan) -> None:
    """Units write the partial results that merging reads, each once, under the right row."""
    written: dict[int, int] = {}
    direct: list[int] = []
    for u, unit in enumerate(plan.units.tolist()):
        for t in range(unit[1]):
            row = unit[0] + t if u >= plan.num_items else int(plan.item_rows[unit[0] + t])
            if unit[7] < 0:
                direct.append(row)
            else:
                assert written.setdefault(unit[7] + t, row) == row
    assert sorted(written) == list(range(plan.num_partials))
    merged = {
        int(slot): int(row)
        for row, a, b in zip(
            plan.merge_rows, plan.merge_indptr, plan.merge_indptr[1:], strict=False
        )
        for slot in plan.merge_indices[a:b]
    }
    assert merged == written
    assert len(direct) == len(set(direct))
    assert not set(direct) & set(plan.merge_rows.tolist())


def random_spans(rng: np.random.Generator, num: int) -> tuple[np.ndarray, ...]:
    indptr = np.concatenate(([0], np.cumsum(rng.integers(1, 6, num))))
    length = rng.integers(1, 200, indptr[-1])
    start = rng.permutation(np.arange(len(length)) * 1000)
    return indptr, start, length, rng.integers(-3, 90, len(length))


@pytest.mark.parametrize("seed", range(8))
def test_extend_covers_everything_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    indptr, start, length, offsets = random_spans(rng, 5)
    num_queries = np.minimum(rng.integers(0, 90, 5), length[indptr[1:] - 1])
    qo_indptr = np.concatenate(([0], np.cumsum(num_queries)))
    config = LaunchConfig(segment_m=64, segment_n=int(rng.choice([16, 64])), unit_cost=0.5)
    plan = plan_extend(
        qo_indptr,
        indptr,
        start,
        length,
        offsets,
        config=config,
        num_sms=int(rng.integers(1, 40)),
        **HEADS,
    )
    assert seen_by_rows(plan) == wanted(qo_indptr, indptr, start, length, offsets)
    check_partials(plan)


@pytest.mark.parametrize("seed", range(8))
def test_decode_covers_everything_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    indptr, start, length, offsets = random_spans(rng, 9)
    # Many spans are copies of a few.
    source = rng.integers(0, 4, len(start))
    is_copy = rng.random(len(start)) < 0.6
    is_copy[indptr[1:] - 1] = False
    start, length = (
        np.where(is_copy, start[source], start),
        np.where(is_copy, length[source], length),
    )
    config = LaunchConfig(segment_m=16, item_m=16, segment_n=32, item_n=16, unit_cost=0.5)
    plan = plan_decode(
        indptr,
        start,
        length,
        offsets,
        start,
        config=config,
        num_sms=int(rng.integers(1, 40)),
        num_padded_rows=2,
        **HEADS,
    )
    assert plan.num_items > 0
    rows = np.arange(len(indptr))
    assert seen_by_rows(plan) == wanted(rows, indptr, start, length, offsets)
    check_partials(plan)
    assert plan.merge_rows[-2:].tolist() == [9, 10]


def test_short_question_over_documents_fills_the_device() -> None:
    """64 queries over 20 documents: two tiles of rows, cut so that all 132 programs are even."""
    length = np.array([512] * 20 + [64])
    plan = plan_extend(
        np.array([0, 64]),
        np.array([0, 21]),
        np.arange(21) * 512,
        length,
        np.arange(21) * 512,
        config=LaunchConfig(segment_m=128, programs_per_sm=1),
        num_sms=132,
        **HEADS,
    )
    programs = len(plan.units) * 8
    assert 0.9 * 132 <= programs <= 132
    assert plan.units[:, 8].max() - plan.units[:, 8].min() <= 1
    assert (np.diff(plan.units[:, 8]) <= 0).all()


def test_long_prefill_is_not_split() -> None:
    plan = plan_extend(
        np.array([0, 16384]),
        np.array([0, 1]),
        np.array([0]),
        np.array([16384]),
        np.array([0]),
        config=LaunchConfig(segment_m=128, programs_per_sm=1),
        num_sms=132,
        **HEADS,
    )
    assert plan.num_partials == 0
    assert len(plan.merge_rows) == 0
    assert (plan.units[:, 6] < NO_LIMIT).all()


def test_splits_do_not_spill_into_another_wave() -> None:
    splits = choose_splits(np.full(16, 160.0), 8, 132, 3.0)
    assert splits.sum() * 8 <= 132 or (splits.sum() * 8) % 132 > 100


def test_nothing_to_do() -> None:
    empty = np.zeros(0, np.int64)
    plan = plan_extend(
        np.array([0]),
        np.array([0]),
        empty,
        empty,
        empty,
        config=LaunchConfig(segment_m=16),
        num_sms=4,
        **HEADS,
    )
    assert len(plan.units) == 0
