"""From requests over a cache to what each query row reads, and at which distance."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lazy.attention.batch import plan_batch, plan_of
from sglang_lazy.attention.plan import AttentionPlan
from sglang_lazy.cache.request_state import admitted_state
from sglang_lazy.request import ChunkContext

from ..cache.pool import SINK
from ..cache.prompts import Content, Prompt, doc, text
from ..cache.simulation import Running, Simulation
from ..cache.test_prefix_cache_random import prompts

Read = Counter[tuple[Content, int]]  # content of a key, distance that its score sees


def batch_of(runs: list[Running], is_decode: bool) -> tuple[Any, Any]:
    """What SGLang hands over: its ForwardBatch and its ScheduleBatch, as far as they are read."""
    seq_lens = [run.req.kv_committed_len for run in runs]
    query_lens = [1 if is_decode else run.req.extend_range.length for run in runs]
    spans = [range(n - k, n) for n, k in zip(seq_lens, query_lens, strict=True)]
    count = sum(query_lens)
    forward_batch = SimpleNamespace(
        forward_mode=SimpleNamespace(is_decode=lambda: is_decode),
        req_pool_indices=torch.tensor([run.req.req_pool_idx for run in runs]),
        seq_lens=torch.tensor(seq_lens),
        positions=torch.tensor([i for span in spans for i in span]),
        input_ids=torch.zeros(count, dtype=torch.int64),
        out_cache_loc=torch.zeros(count, dtype=torch.int64),
        extend_num_tokens=None if is_decode else count,
        num_token_non_padded_cpu=count,
        num_token_non_padded=torch.tensor(count),
        model_specific_states=None,
    )
    batch = SimpleNamespace(
        reqs=[run.req for run in runs],
        seq_lens_cpu=torch.tensor(seq_lens),
        extend_lens=None if is_decode else query_lens,
    )
    return forward_batch, batch


def stored_position(content: Content) -> int:
    """Rotary position at which a key was stored."""
    _, before, tokens = content  # type: ignore[misc]
    skipped = 0 if before == "path" else sum(len(ids) for _, ids in before[2])
    return skipped + len(tokens) - 1


def named_keys(plan: AttentionPlan) -> dict[tuple[int, int], list[tuple[int, ...]]]:
    """Slots of the spans of each name: those of equal id and length are read as one."""
    named = defaultdict(list)
    if plan.span_ids is not None:
        columns = (plan.span_start, plan.span_len, plan.span_ids)
        for start, length, span_id in zip(*(c.tolist() for c in columns), strict=True):
            slots = plan.kv_indices[start : start + length].tolist()
            named[span_id, length].append(tuple(slots))
    return named


def reads(sim: Simulation, forward_batch: Any) -> list[Read]:
    """What each query row reads, by the plan."""
    plan = plan_of(forward_batch)
    assert plan is not None
    slots, positions = plan.kv_indices.tolist(), forward_batch.positions.tolist()
    spans = [c.tolist() for c in (plan.span_start, plan.span_len, plan.position_offsets)]
    for names in named_keys(plan).values():
        assert len(set(names)) == 1, "one name for different keys"
    found: list[Read] = []
    qo, span_indptr = pairwise(plan.qo_indptr.tolist()), pairwise(plan.span_indptr.tolist())
    for (first, end), (low, high) in zip(qo, span_indptr, strict=True):
        for row in range(first, end):
            read: Read = Counter()
            for s in range(low, high):
                start, length, offset = (column[s] for column in spans)
                hidden = end - 1 - row if s == high - 1 else 0
                for slot in slots[start : start + length - hidden]:
                    content = sim.written[slot]
                    read[content, positions[row] - offset - stored_position(content)] += 1
            found.append(read)
    return found


def path_read(prompt: Prompt, tokens: tuple[int, ...]) -> Read:
    """What the last of ``tokens`` attends to, if they stand alone."""
    n = len(tokens)
    return Counter(((prompt.namespace, "path", tokens[: i + 1]), n - 1 - i) for i in range(n))


def expected_reads(run: Running, logical: int) -> Read:
    """What the token at a logical position attends to (docs/design.md)."""
    prompt, contents = run.prompt, run.prompt.contents(run.ids)
    i = max(i for i, start in enumerate(prompt.starts) if start <= logical)
    part = prompt.parts[i]
    if part.is_document:
        count = logical - prompt.starts[i] + 1
        return path_read(prompt, (*prompt.context, *part.head, *part.tokens[:count]))
    read = Counter(
        (content, logical - i) for i, content in enumerate(sum(contents, [])[: logical + 1])
    )
    if prompt.mode == "sink" and prompt.parts[0].is_document:
        read[prompt.detached_contents(None)[0], logical + 1] += 1  # as if it stood at -1
    return read


def expected_rows(run: Running, start: int, end: int) -> list[tuple[Content, Read]]:
    """Detached tokens that the pass over [start, end) must compute: content, what they read."""
    state = admitted_state(run.req)
    if state is None:
        return []
    places = run.permutation()[start:end]
    computed: list[tuple[int | None, Any]] = []
    if state.sink is not None and start == state.layout.num_cached:
        computed.append((None, state.sink))
    for i, part in enumerate(run.prompt.parts):
        # A head goes with the first token of its tail that was not cached.
        is_whole = run.cached[i] == len(part.tokens)
        if part.head and not is_whole and run.prompt.starts[i] + run.cached[i] in places:
            computed.append((i, state.heads[i]))
    return [
        (content, path_read(run.prompt, content[-1]))  # type: ignore[index]
        for i, detached in computed
        for content in run.prompt.detached_contents(i)[detached.num_cached :]
    ]


def check(sim: Simulation, runs: list[Running], is_decode: bool = False) -> None:
    forward_batch, batch = batch_of(runs, is_decode)
    rows = len(forward_batch.positions)
    expected: list[Read] = []
    appended: list[tuple[Content, Read]] = []
    for run in runs:
        end = run.req.kv_committed_len
        start = end - 1 if is_decode else run.req.extend_range.start
        expected += [expected_reads(run, logical) for logical in run.permutation()[start:end]]
        appended += [] if is_decode else expected_rows(run, start, end)
    plan_batch(forward_batch, batch, sim.cache)
    contents = [content for content, _ in appended]
    new_slots = forward_batch.out_cache_loc[rows:].tolist()
    sim.written |= dict(zip(new_slots, contents, strict=True))
    # Appended rows come last.
    assert reads(sim, forward_batch) == expected + [read for _, read in appended]
    positions = forward_batch.positions[rows:].tolist()
    assert positions == [stored_position(content) for content in contents]
    assert forward_batch.input_ids[rows:].tolist() == [content[-1][-1] for content in contents]
    if not is_decode:
        assert forward_batch.extend_num_tokens == rows + len(contents)
    assert forward_batch.num_token_non_padded_cpu == rows + len(contents)
    assert int(forward_batch.num_token_non_padded) == rows + len(contents)


# Without namespaces of their own, so that requests share what they can.
shared_prompts = prompts().map(
    lambda prompt: Prompt(prompt.segments, prompt.mode, link_tokens=prompt.link_tokens)
)


@settings(max_examples=80, deadline=None)
@given(
    warm=st.lists(shared_prompts, max_size=2),
    batch=st.lists(shared_prompts, min_size=1, max_size=3),
    chunk=st.integers(1, 9),
)
def test_each_row_reads_what_its_token_attends_to(
    warm: list[Prompt], batch: list[Prompt], chunk: int
) -> None:
    sim = Simulation()
    for prompt in warm:
        sim.serve(prompt)
    runs = [sim.start(prompt) for prompt in batch]
    while active := [run for run in runs if not run.is_prefilled]:
        for run in active:
            sim.compute(run, chunk, writes_detached=False)
        check(sim, active)
        for run in active:
            sim.store(run)
        sim.check()
    for token in (3, 4):
        for run in runs:
            sim.decode(run, token)
        check(sim, runs, is_decode=True)


def test_sink_is_computed_by_the_first_pass_of_a_request() -> None:
    sim = Simulation()
    run = sim.start(Prompt.of(doc(5, 6), text(7), mode="sink"))
    for appended in ([SINK], [], []):
        sim.compute(run, 1, writes_detached=False)
        forward_batch, batch = batch_of([run], False)
        plan_batch(forward_batch, batch, sim.cache)
        assert forward_batch.input_ids.tolist()[1:] == appended
        sim.store(run)


def test_head_is_computed_by_the_pass_that_begins_its_tail() -> None:
    sim = Simulation()
    sim.serve(Prompt.of(doc(5, 6, 8), text(7)))
    run = sim.start(Prompt.of(doc(5, 6, 8), text(1), doc(5, 9, 8, 7), text(7), link_tokens=2))
    assert run.cached == [2, 1, 0, 0, 0]  # a document that comes first: its head is the same
    appended = []
    while not run.is_prefilled:
        sim.compute(run, 1, writes_detached=False)
        forward_batch, batch = batch_of([run], False)
        plan_batch(forward_batch, batch, sim.cache)
        appended.append(forward_batch.input_ids.tolist()[1:])
        sim.store(run)
    # Text 1 and the head, each alone; then the tail, with what is not known of its local
    # head, [5, 9]; the rest.
    assert appended == [[], [], [], [9], [], []]


def decoding(sim: Simulation, runs: list[Running]) -> AttentionPlan:
    """The plan of a step of all these requests."""
    for run in runs:
        sim.prefill(run)
        sim.decode(run, 3)
    check(sim, runs, is_decode=True)
    forward_batch, batch = batch_of(runs, True)
    plan_batch(forward_batch, batch, sim.cache)
    return plan_of(forward_batch)


@pytest.mark.parametrize("mode", ["none", "sink"])
def test_requests_share_a_document_wherever_each_holds_it(mode: ChunkContext) -> None:
    sim = Simulation()
    one = sim.prefill(sim.start(Prompt.of(text(SINK, 1), doc(5, 6), text(7), mode=mode)))
    other = sim.start(Prompt.of(text(SINK, 2, 3), doc(9), doc(5, 6), text(8), mode=mode))
    plan = decoding(sim, [one, other])
    assert plan.shares_spans
    (shared,) = (keys for keys in named_keys(plan).values() if len(keys) > 1)
    assert shared == [tuple(sim.row(one)[2:4].tolist())] * 2


def test_concurrent_requests_share_a_document() -> None:
    sim = Simulation()
    runs = [sim.start(Prompt.of(doc(5, 6), text(i))) for i in (7, 8)]
    for run in runs:
        sim.compute(run)
    for run in runs:
        sim.store(run)
    assert decoding(sim, runs).shares_spans


def test_segments_that_end_in_one_node_are_not_mistaken_for_each_other() -> None:
    """A text and a document on one path, cut at different places: their heads differ."""
    sim = Simulation()
    last = (doc(9), text(7))
    sim.serve(Prompt.of(text(SINK, 5, 1)))
    as_text = sim.start(Prompt.of(text(SINK, 5, 6, 7), *last, mode="sink"))
    sim.serve(Prompt.of(text(SINK, 5, 6, 1)))
    as_document = sim.start(Prompt.of(text(SINK), doc(5, 6, 7), *last[1:], mode="sink"))
    assert as_text.cached[0] == as_document.cached[1] == 2
    decoding(sim, [as_text, as_document])


def test_plan_is_a_copy_of_the_rows() -> None:
    """SGLang may give a row to another request while the pass still runs."""
    sim = Simulation()
    run = sim.start(Prompt.of(doc(5), text(7)))
    sim.compute(run)
    forward_batch, batch = batch_of([run], False)
    plan_batch(forward_batch, batch, sim.cache)
    before = plan_of(forward_batch).kv_indices.clone()
    sim.row(run).fill_(99)
    assert torch.equal(plan_of(forward_batch).kv_indices, before)


def test_heads_that_were_computed_are_one_span_when_decoding() -> None:
    sim = Simulation()
    documents = [doc(i, i, i) for i in range(20, 25)]
    sim.serve(Prompt.of(text(SINK), *documents, text(7)))
    run = sim.start(Prompt.of(text(SINK, 1), *documents, text(8), link_tokens=1))
    plan = decoding(sim, [run])
    # The cached token of the text, five tails, and all that was computed.
    assert plan.span_len.tolist() == [1, *[2] * 5, 1 + 5 + 1 + 1]
