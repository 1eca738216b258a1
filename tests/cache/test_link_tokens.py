"""Link tokens: heads of documents are the prompt's own, the rest is shared."""

from __future__ import annotations

import pytest
from sglang.srt.managers.schedule_batch import Req

from sglang_lazy.cache.request_state import admitted_state
from sglang_lazy.request import ChunkContext

from .pool import SINK
from .prompts import Prompt, doc, text
from .simulation import Simulation

MODES: list[ChunkContext] = ["none", "sink", "preamble"]
S, S2 = text(SINK, 1, 2), text(SINK, 3, 4, 5, 6)
A, B, TINY = doc(*range(10, 18)), doc(*range(20, 25)), doc(6, 7)
Q, Q2 = text(30, 31, 32), text(40, 41)
K = 3


@pytest.fixture
def sim() -> Simulation:
    return Simulation()


def tails(*documents: tuple[bool, tuple[int, ...]], link_tokens: int = K) -> int:
    return sum(len(tokens) - link_tokens for _, tokens in documents)


def report(req: Req) -> dict[str, int]:
    return req.customized_info["chunk_cache"][0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", [0, 1, K])
def test_tails_are_shared_whatever_the_number_of_link_tokens(
    sim: Simulation, mode: ChunkContext, first: int
) -> None:
    sim.serve(Prompt.of(S, A, B, Q, mode=mode, link_tokens=first))
    for link_tokens in (2, K, 4):
        run = sim.start(Prompt.of(S, B, A, Q2, mode=mode, link_tokens=link_tokens))
        cached_tokens = tails(A, B, link_tokens=link_tokens)
        assert report(run.req) == {"documents": 2, "hits": 2, "cached_tokens": cached_tokens}
        sim.prefill(run)
        sim.check()
        sim.finish(run)
    assert sim.serve(Prompt.of(S, B, A, Q, mode=mode)) == len(S[1] + A[1] + B[1])


@pytest.mark.parametrize("mode", MODES)
def test_repeat_with_everything_before_the_same_computes_one_token(
    sim: Simulation, mode: ChunkContext
) -> None:
    prompt = Prompt.of(S, A, Q, B, Q2, mode=mode, link_tokens=K)
    sim.serve(prompt)
    assert sim.serve(prompt) == len(prompt.ids) - 1


def test_heads_are_not_reused_behind_other_text(sim: Simulation) -> None:
    sim.serve(Prompt.of(S, A, B, Q, mode="sink", link_tokens=K))
    # The head of A stands where it stood, that of B does not.
    assert sim.serve(Prompt.of(S, A, A, B, Q, mode="sink", link_tokens=K)) == (
        len(S[1] + A[1]) + tails(A, B)
    )


def test_text_behind_tails_is_not_text_behind_documents(sim: Simulation) -> None:
    """`S A[:3]` + `A[3:]` holds the same tokens as `S` + `A`, cut where A's head ends."""
    sim.serve(Prompt.of(S, A, Q, mode="none", link_tokens=K))
    as_text = text(*S[1], *A[1][:K])
    run = sim.start(Prompt.of(as_text, doc(*A[1][K:]), Q, mode="none"))
    assert run.cached == [len(as_text[1]), 0, 0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("link_tokens", [len(A[1]), 99])
def test_document_without_a_tail_is_text(
    sim: Simulation, mode: ChunkContext, link_tokens: int
) -> None:
    sim.serve(Prompt.of(text(*S[1], *A[1], *Q[1])))
    prompt = Prompt.of(S, A, Q, mode=mode, link_tokens=link_tokens)
    run = sim.start(prompt)
    assert run.cached == [len(prompt.ids) - 1]
    assert report(run.req) == {"documents": 1, "hits": 0, "cached_tokens": 0}


def test_short_document_joins_the_text_around_it(sim: Simulation) -> None:
    run = sim.start(Prompt.of(TINY, Q, TINY, A, TINY, Q2, mode="sink", link_tokens=K))
    layout = admitted_state(run.req).layout
    assert layout.lengths == (2 + 3 + 2 + K, len(A[1]) - K, 2 + 2)
    sim.prefill(run)
    sim.check()


def test_report_counts_tails(sim: Simulation) -> None:
    sim.serve(Prompt.of(S, A, Q, mode="sink"))
    run = sim.start(Prompt.of(S2, A, B, TINY, Q, mode="sink", link_tokens=K))
    assert report(run.req) == {"documents": 3, "hits": 1, "cached_tokens": tails(A)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk", [1, 2, 4, 7, 13])
def test_one_document_twice_in_chunks(sim: Simulation, mode: ChunkContext, chunk: int) -> None:
    sim.serve(Prompt.of(A, A, B, A, Q, mode=mode, link_tokens=K), chunk)
    assert sim.serve(Prompt.of(B, A, Q2, mode=mode)) == len(A[1] + B[1])


def test_known_head_is_not_computed_again(sim: Simulation) -> None:
    """Two documents that begin alike: the head of the second is the first one's."""
    sim.serve(Prompt.of(S, A, Q, mode="sink"))
    run = sim.start(Prompt.of(S2, doc(*A[1][:K], 99), Q, mode="sink", link_tokens=K))
    (head,) = admitted_state(run.req).heads.values()
    assert (head.num_cached, head.num_missing, head.private) == (K, 0, None)
    sim.prefill(run)
    sim.check()


def test_partly_known_head_is_completed(sim: Simulation) -> None:
    sim.serve(Prompt.of(S, A, Q, mode="sink"))
    run = sim.start(Prompt.of(S2, doc(*A[1][:2], 98, 99), Q, mode="sink", link_tokens=K))
    (head,) = admitted_state(run.req).heads.values()
    assert (head.num_cached, head.num_missing) == (2, 1)
    sim.prefill(run)
    sim.check()
    sim.finish(run)
    sim.check()


def test_cached_documents_need_nothing_detached(sim: Simulation) -> None:
    sim.serve(Prompt.of(S, A, B, Q, mode="sink"))
    free = sim.allocator.available_size()
    run = sim.start(Prompt.of(S, B, A, Q, mode="sink", link_tokens=K))
    assert not sim.cache.lacks_room(run.req)
    assert not admitted_state(run.req).detached()
    assert sim.allocator.available_size() == free


def test_heads_are_invisible_until_they_are_written(sim: Simulation) -> None:
    """Other requests, documents and plain prompts alike, find nothing of them."""
    one = sim.start(Prompt.of(A, Q, mode="none", link_tokens=K))
    sim.compute(one)
    assert sim.serve(Prompt.of(text(*A[1], 7))) == 0
    sim.store(one)
    sim.check()


def test_concurrent_requests_keep_one_copy_of_a_head(sim: Simulation) -> None:
    runs = [
        sim.start(Prompt.of(s, A, Q, mode="sink", link_tokens=k)) for s in (S, S2) for k in (2, K)
    ]
    for run in runs:
        sim.compute(run)
    for run in reversed(runs):
        sim.store(run)
        sim.check()
    for run in runs:
        sim.finish(run)
        sim.check()


@pytest.mark.parametrize("computed", [0, 4, 9, 14])
def test_abort_gives_heads_back(sim: Simulation, computed: int) -> None:
    run = sim.start(Prompt.of(S, A, B, Q, mode="none", link_tokens=K))
    if computed:
        sim.compute(run, computed)
    if computed > 4:
        sim.store(run)
        sim.check()
    if computed:
        sim.finish(run, is_insert=False)
    else:  # admitted, and aborted before a pass
        sim.cache.dec_lock_ref(run.req.last_node)
        sim.running.remove(run)
    sim.match(sim.new(Prompt.of(text(99))))
    sim.check()
    assert not sim.cache._private
    sim.serve(Prompt.of(S, A, B, Q, mode="none"))


def test_request_that_is_not_admitted_leaves_nothing(sim: Simulation) -> None:
    run = sim.new(Prompt.of(A, B, Q, mode="sink", link_tokens=K))
    for _ in range(3):
        sim.match(run)
        assert sim.cache.evictable_size() == 1 + 2 * K  # the sink and both heads
    assert sim.serve(Prompt.of(text(SINK, *A[1]))) == 0
    assert not sim.cache._private


def test_retracted_request_goes_on(sim: Simulation) -> None:
    prompt = Prompt.of(S, A, B, Q, mode="sink", link_tokens=K)
    run = sim.prefill(sim.start(prompt), chunk=5)
    sim.decode(run, 50)
    sim.retract(run)
    sim.evict(4)
    sim.admit(run)
    sim.prefill(run)
    sim.decode(run, 51)
    sim.check()
    sim.finish(run)
    sim.check()


def test_making_room_for_heads_keeps_what_was_matched() -> None:
    """All that could be evicted is what the request itself has found."""
    sim = Simulation(num_slots=40)
    sim.serve(Prompt.of(S, A, Q, mode="sink", link_tokens=K))
    sim.prefill(sim.start(Prompt.of(text(*range(50, 50 + sim.allocator.available_size())))))
    cached = sim.cache.evictable_size()
    run = sim.new(Prompt.of(S, A, Q, B, Q2, mode="sink", link_tokens=K))
    run.req.init_next_round_input(sim.cache)
    assert len(run.req.prefix_indices) == 0 and admitted_state(run.req) is None
    assert sim.cache.lacks_room(run.req)
    assert sim.cache.evictable_size() == cached
    sim.check()


def test_heads_in_a_full_pool_are_not_admitted() -> None:
    sim = Simulation(num_slots=20)
    sim.prefill(sim.start(Prompt.of(text(*range(50, 66)))))
    run = sim.new(Prompt.of(A, B, Q, mode="none", link_tokens=K))
    run.req.init_next_round_input(sim.cache)
    assert len(run.req.prefix_indices) == 0 and admitted_state(run.req) is None
    assert sim.cache.lacks_room(run.req)
    sim.check()


def test_answer_leaves_room_for_heads() -> None:
    prompt = Prompt.of(A, B, Q, mode="sink", link_tokens=K)
    sim = Simulation(num_slots=50)
    req = sim.new(prompt).req
    req.sampling_params.max_new_tokens = 100
    req.init_next_round_input(sim.cache)
    # SGLang admits what is smaller than the pool, one token apart.
    detached = 1 + 2 * K
    assert req.sampling_params.max_new_tokens == 50 - len(prompt.ids) - detached - 2


@pytest.mark.parametrize(("num_slots", "fits"), [(26, True), (25, False)])
def test_prompt_that_never_fits_is_refused(num_slots: int, fits: bool) -> None:
    prompt = Prompt.of(A, B, Q, mode="sink", link_tokens=K)  # 16 tokens, and 7 detached
    sim = Simulation(num_slots)
    reason = sim.cache.reason_to_refuse(sim.new(prompt).req)
    assert (reason is None) == fits
    if not fits:
        assert "16 tokens, and 7 more" in reason and "25 tokens" in reason
