"""Plans expanded key by key, against the mask of docs/design.md, "What is computed"."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lazy.attention.plan import AttentionPlan, PlanBuilder
from sglang_lazy.cache.layout import PromptLayout

SINK = "sink"
Key = tuple[int, object]  # request, logical index, SINK, or (segment, index in its head)
Pair = tuple[Key, Key, int]  # query, key, distance that the scores see


@dataclass(frozen=True)
class Request:
    """One request in a pass: its last ``num_queries`` of ``seq_len`` tokens are computed."""

    layout: PromptLayout | None  # None: a plain prompt
    seq_len: int
    num_queries: int

    def logical(self) -> list[int]:
        """Logical index of each place of the row."""
        permutation = [] if self.layout is None else self.layout.permutation.tolist()
        return [*permutation, *range(len(permutation), self.seq_len)][: self.seq_len]

    def segment(self, index: int) -> int:
        assert self.layout is not None
        starts = self.layout.segment_starts
        return max(i for i, start in enumerate(starts) if start <= index)

    def sees(self, query: int, key: int) -> bool:
        """The mask, from the words of the design."""
        if key > query:
            return False
        if self.layout is None:
            return True
        own, other = self.segment(query), self.segment(key)
        if not self.layout.is_document[own]:
            return True
        return own == other or (self.layout.has_own_context and key < self.layout.context_length)

    def distance(self, query: int, key: int) -> int:
        """Documents are encoded as if they stood right behind their context."""
        if self.layout is None:
            return query - key
        own, other = self.segment(query), self.segment(key)
        if self.layout.is_document[own] and own != other:
            start = self.layout.segment_starts[own] - self.layout.head(own)
            return self.layout.context_length + (query - start) - key
        return query - key

    def sink_distance(self, query: int) -> int | None:
        """Distance to a detached sink; None where it is not seen."""
        layout = self.layout
        if layout is None or not layout.has_sink_span:
            return None
        own = self.segment(query)
        if layout.is_document[own]:
            return query - layout.segment_starts[own] + layout.head(own) + 1
        return query + 1 if layout.is_document[0] else None

    def pairs(self, number: int) -> Counter[Pair]:
        found: Counter[Pair] = Counter()
        visible = self.logical()
        for query in visible[self.seq_len - self.num_queries :]:
            for key in range(max(visible) + 1):
                if self.sees(query, key):
                    found[(number, query), (number, key), self.distance(query, key)] += 1
            if (distance := self.sink_distance(query)) is not None:
                found[(number, query), (number, SINK), distance] += 1
            for i, distance in enumerate(self.head_distances(query)):
                found[(number, query), (number, (self.segment(query), i)), distance] += 1
        return found

    def head_distances(self, query: int) -> list[int]:
        """Distances to the tokens of the head that a document's tail was encoded behind."""
        if self.layout is None:
            return []
        own = self.segment(query)
        n, start = self.layout.head(own), self.layout.segment_starts[own]
        return [query - start + n - i for i in range(n)]

    def detached(self, row: int) -> dict[int | None, int]:
        """Where the row's columns hold the sink and the heads."""
        layout = self.layout
        places: dict[int | None, int] = {}
        at = row + WIDTH - 1
        if layout is None:
            return places
        if layout.has_sink_span:
            places[None] = at
        for i, n in enumerate(layout.heads):
            at -= n
            if n:
                places[i] = at
        return places


@st.composite
def layouts(draw: st.DrawFn) -> PromptLayout:
    is_document = [*draw(st.lists(st.booleans(), max_size=5)), False]
    is_document = [d for i, d in enumerate(is_document) if d or i == 0 or is_document[i - 1]]
    lengths = [draw(st.integers(1, 5)) for _ in is_document]
    cached = [draw(st.integers(0, n)) for n in lengths]
    has_own_context = not is_document[0] and draw(st.booleans())
    context_length = draw(st.integers(1, lengths[0]) if has_own_context else st.integers(0, 1))
    if has_own_context and any(cached):
        cached[0] = max(cached[0], min(context_length, lengths[0]))  # a path's head is cached first
    cached[-1] = min(cached[-1], lengths[-1] - 1)  # at least one token is computed
    heads = [draw(st.integers(0, 2)) if d else 0 for d in is_document]
    return PromptLayout(
        tuple(lengths), tuple(is_document), tuple(cached), context_length, has_own_context,
        tuple(draw(st.sampled_from([(), heads]))),
    )  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Request:
    layout = draw(st.none() | layouts())
    if layout is None:
        seq_len = draw(st.integers(1, 9))
        return Request(None, seq_len, draw(st.integers(1, seq_len)))
    if draw(st.booleans()):  # decoding
        return Request(layout, layout.num_tokens + draw(st.integers(1, 3)), 1)
    start = draw(st.integers(layout.num_cached, layout.num_tokens - 1))
    end = draw(st.integers(start + 1, layout.num_tokens))
    return Request(layout, end, end - start)


WIDTH = 100  # places of a row; the last ones hold detached slots


def build(batch: list[Request]) -> AttentionPlan:
    builder = PlanBuilder()
    for number, request in enumerate(batch):
        row = number * WIDTH
        if request.layout is None:
            builder.add_plain(row, request.seq_len, request.num_queries)
            continue
        detached = request.detached(row)
        builder.add_prompt(row, request.seq_len, request.num_queries, request.layout, detached)
    return builder.build(torch.arange(WIDTH * len(batch), dtype=torch.int32))


def expand(plan: AttentionPlan, batch: list[Request]) -> Counter[Pair]:
    """What a kernel that follows the plan computes."""
    place_of: dict[int, Key] = {}
    position_of: dict[Key, int] = {}  # at which a token is computed and its key stored
    rows: list[Key] = []
    for number, request in enumerate(batch):
        row = number * WIDTH
        logical = request.logical()
        place_of |= {row + place: (number, index) for place, index in enumerate(logical)}
        place_of[row + WIDTH - 1] = (number, SINK)
        position_of[number, SINK] = 0
        for segment, place in request.detached(row).items():
            for i in range(request.layout.head(segment) if segment is not None else 0):
                place_of[place + i] = (number, (segment, i))
                position_of[number, (segment, i)] = request.layout.context_length + i
        for place, index in enumerate(logical):
            layout = request.layout
            in_prompt = layout is not None and place < layout.num_tokens
            position_of[number, index] = (
                int(layout.positions(place, place + 1)[0]) if in_prompt else index
            )
        rows += [(number, index) for index in logical[request.seq_len - request.num_queries :]]

    pairs: Counter[Pair] = Counter()
    qo, span_indptr = plan.qo_indptr.tolist(), plan.span_indptr.tolist()
    assert (qo[0], qo[-1], span_indptr[0]) == (0, len(rows), 0)
    spans = list(
        zip(plan.span_start.tolist(), plan.span_len.tolist(), plan.position_offsets.tolist(),
            strict=True)
    )  # fmt: skip
    assert span_indptr[-1] == len(spans)
    for (first, end), (low, high) in zip(pairwise(qo), pairwise(span_indptr), strict=True):
        n = end - first
        for j, query in enumerate(rows[first:end]):
            for s, (start, length, offset) in enumerate(spans[low:high], low):
                seen = length if s < high - 1 else length - n + j + 1
                for slot in plan.kv_indices[start : start + seen].tolist():
                    key = place_of[slot]
                    pairs[query, key, position_of[query] - offset - position_of[key]] += 1
    return pairs


def check(batch: list[Request]) -> None:
    expected: Counter[Pair] = Counter()
    for number, request in enumerate(batch):
        expected += request.pairs(number)
    assert expand(build(batch), batch) == expected


@settings(max_examples=400, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=3))
def test_each_visible_pair_exactly_once(batch: list[Request]) -> None:
    check(batch)


@settings(max_examples=100, deadline=None)
@given(layouts(), st.data())
def test_chunks_add_up_to_the_mask(layout: PromptLayout, data: st.DataObject) -> None:
    """The passes of a chunked prefill compute each query once, wherever they are cut."""
    cuts = data.draw(st.sets(st.integers(layout.num_cached + 1, layout.num_tokens)))
    ends = sorted({layout.num_cached, *cuts, layout.num_tokens})
    got: Counter[Pair] = Counter()
    for start, end in pairwise(ends):
        batch = [Request(layout, end, end - start)]
        got += expand(build(batch), batch)
    whole = Request(layout, layout.num_tokens, layout.num_tokens - layout.num_cached)
    assert got == whole.pairs(0)


def test_plain_requests_are_one_causal_span_each() -> None:
    plan = build([Request(None, 5, 2), Request(None, 3, 3)])
    assert plan.qo_indptr.tolist() == [0, 2, 5]
    assert plan.span_start.tolist() == [0, WIDTH]
    assert plan.span_len.tolist() == [5, 3]
    assert plan.position_offsets.tolist() == [0, 0]


def test_dtypes() -> None:
    plan = build([Request(None, 2, 1)])
    ragged = (plan.qo_indptr, plan.span_indptr, plan.span_len, plan.position_offsets)
    assert {column.dtype for column in ragged} == {np.dtype(np.int32)}
    assert plan.span_start.dtype == np.int64


def columns(plan: AttentionPlan) -> list[tuple[int, int, int]]:
    """All spans: start, length, offset."""
    spans = (plan.span_start, plan.span_len, plan.position_offsets)
    return list(zip(*(column.tolist() for column in spans), strict=True))


def test_sink_row_sees_itself() -> None:
    layout = PromptLayout((1, 1), (True, False), (0, 0), 1, False)
    builder = PlanBuilder()
    builder.add_plain(0, 2, 1)
    builder.add_detached(0, 1, layout, {None: 7}, None)
    plan = builder.build(torch.arange(8))
    assert plan.qo_indptr.tolist() == [0, 1, 2]
    assert columns(plan)[1:] == [(7, 1, 0)]


@pytest.mark.parametrize(
    ("context_length", "has_own_context", "detached", "sees"),
    [
        (0, False, {1: 50}, []),
        (1, False, {None: 60, 1: 50}, [(60, 1, 0)]),
        (2, True, {1: 50}, [(10, 2, 0)]),
    ],
    ids=["none", "sink", "preamble"],
)
def test_head_rows_see_context_and_head(
    context_length: int, has_own_context: bool, detached: dict, sees: list
) -> None:
    layout = PromptLayout(
        (5, 4, 2), (False, True, False), (0, 0, 0), context_length, has_own_context, (0, 3, 0)
    )
    builder = PlanBuilder()
    builder.add_detached(10, 2, layout, detached, 1)  # the last two of three
    plan = builder.build(torch.arange(100))
    assert plan.qo_indptr.tolist() == [0, 2]
    assert columns(plan) == [*sees, (50, 3, 0)]
