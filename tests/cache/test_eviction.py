"""What is evicted first, by policy: documents that are found count as prompts do on stock."""

from __future__ import annotations

from array import array
from dataclasses import replace
from types import SimpleNamespace

import pytest
from sglang.srt.mem_cache.base_prefix_cache import EvictParams

from sglang_lazy.cache import eviction
from sglang_lazy.cache.eviction import GreedyDual, LeafHeap
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.patches import weight_updater

from .pool import SINK, init_params, tree_nodes
from .prompts import Prompt, doc, text
from .simulation import Simulation

A, B, C = doc(*range(10, 20)), doc(*range(20, 30)), doc(*range(30, 40))


def new_weights(sim: Simulation, flush: bool = False) -> None:
    def update(manager: SimpleNamespace, request: None) -> None:
        if flush:
            sim.flush()

    manager = SimpleNamespace(scheduler=SimpleNamespace(tree_cache=sim.cache))
    weight_updater.flush_cache_after_weight_update(update, manager, None)


def new_simulation(policy: str, num_slots: int = 400) -> Simulation:
    """Depth counts for nothing: attention is free."""
    params = replace(init_params(num_slots), eviction_policy=policy)
    return Simulation(cache=LazyPrefixCache(params, SINK, 7, break_even_keys=float("inf")))


def ask(sim: Simulation, *documents: tuple, seed: int = 0, priority: int = 0) -> None:
    """A request about documents, with a question that nobody else has."""
    run = sim.new(Prompt.of(*documents, text(200 + seed)))
    run.req.priority = priority
    sim.finish(sim.prefill(sim.admit(run)))
    sim.check()


def is_cached(sim: Simulation, document: tuple) -> bool:
    leaves = {node.key.token_ids[0] for node in tree_nodes(sim.cache)}
    return document[1][0] in leaves


def first_out(sim: Simulation, *documents: tuple) -> tuple:
    """The one of these documents that leaves first, one leaf going at a time."""
    while all(is_cached(sim, document) for document in documents):
        sim.evict(1)
        sim.check()
    (gone,) = (document for document in documents if not is_cached(sim, document))
    return gone


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("lru", B), ("lfu", C), ("slru", B), ("fifo", A), ("mru", C), ("gdsf", C)],
)
def test_documents_that_were_found_count(policy: str, gone: tuple) -> None:
    """A and B are computed, and found once each, A last; then C is computed."""
    sim = new_simulation(policy)
    for i, document in enumerate((A, B, B, A, C)):
        ask(sim, document, seed=i)
    assert first_out(sim, A, B, C) is gone
    if gone is C:  # of equals, the one that was used last stays
        assert first_out(sim, A, B) is (A if policy == "mru" else B)


def test_priority_of_a_request_that_found_a_document() -> None:
    sim = new_simulation("priority")
    for seed, (document, priority) in enumerate([(A, 0), (B, 1), (A, 5), (C, 3)]):
        ask(sim, document, seed=seed, priority=priority)
    assert first_out(sim, A, B, C) is B
    assert first_out(sim, A, C) is C


@pytest.mark.parametrize("policy", ["lru", "gdsf"])
def test_a_document_is_in_use_until_its_request_ends(policy: str) -> None:
    sim = new_simulation(policy)
    ask(sim, A, seed=1)
    long = sim.prefill(sim.start(Prompt.of(A, text(200))))
    for seed in range(2, 4):
        ask(sim, B, seed=seed)
        if policy == "gdsf":
            sim.evict(1)  # a question: the clock goes on
    assert is_cached(sim, A) and is_cached(sim, B)
    sim.finish(long)
    assert first_out(sim, A, B) is B


def test_a_plain_prompt_is_in_use_until_it_ends() -> None:
    sim = new_simulation("gdsf")
    a, b = Prompt.of(text(*A[1])), Prompt.of(text(*B[1]))
    sim.serve(a)
    long = sim.prefill(sim.start(a))
    for seed in range(3):
        sim.serve(Prompt.of(text(300 + seed)))
        sim.evict(1)  # just that: the clock goes on
        sim.serve(b)
    sim.finish(long)
    record = {node.key.token_ids[0]: node for node in tree_nodes(sim.cache)}[A[1][0]]
    priority, _ = sim.cache.eviction_strategy.get_priority(record)
    assert priority == sim.cache.eviction_strategy.clock + 2 > 2


@pytest.mark.parametrize("policy", ["lru", "gdsf"])
def test_locked_documents_stay(policy: str) -> None:
    sim = new_simulation(policy)
    run = sim.prefill(sim.start(Prompt.of(A, text(200))))
    for seed in range(5):
        ask(sim, B, seed=seed)
    sim.evict(400)
    assert is_cached(sim, A) and not is_cached(sim, B)
    sim.finish(run)
    sim.evict(400)
    assert not list(tree_nodes(sim.cache))


@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
@pytest.mark.parametrize("policy", ["lru", "lfu", "gdsf"])
def test_documents_of_old_weights_do_not_stay(policy: str, mode: str) -> None:
    """However popular they were: nothing finds them any more. Prompts without documents do."""
    sim = new_simulation(policy)
    plain = Prompt.of(text(1, 2, 3))
    sim.serve(plain)
    asked = Prompt.of(text(1, 2), A, text(4), B, text(5), mode=mode)
    for _ in range(3):
        sim.serve(asked)
    running = sim.prefill(sim.start(Prompt.of(text(1, 2), C, text(6), mode=mode)))
    new_weights(sim)
    sim.exact = False  # what was computed with other weights is no hit
    sim.check()
    assert not is_cached(sim, A) and not is_cached(sim, B) and is_cached(sim, C)
    resident = sim.cache.statistics.resident
    assert (len(resident), resident.num_tokens) == (1, len(C[1]))
    assert sim.serve(plain) == len(plain.ids) - 1
    sim.finish(running)
    sim.check()
    assert sim.serve(asked) == 0
    new_weights(sim)  # text before documents, too, lies in the old namespace
    namespaces = {node.key.extra_key for node in tree_nodes(sim.cache)}
    assert namespaces == {None} and not len(resident)


def test_what_was_popular_is_remembered_when_the_weights_change() -> None:
    sim = new_simulation("gdsf")
    sim.exact = False
    for seed in range(3):
        ask(sim, A, seed=seed)
    ask(sim, B, seed=3)
    new_weights(sim)
    for seed in range(4, 6):
        ask(sim, B, seed=seed)
    ask(sim, A, seed=7)
    uses = sim.cache.eviction_strategy.uses
    found = {n.key.token_ids[0]: uses(n) for n in tree_nodes(sim.cache)}
    assert (found[A[1][0]], found[B[1][0]]) == (4, 3)


def test_private_nodes_are_not_remembered() -> None:
    """They have no name by which they could come back."""
    sim = new_simulation("gdsf")
    sim.cache.hold_private(array("q", [1, 2]), sim.allocator.alloc(2))
    sim.evict(2)
    sim.check()
    assert not sim.cache.eviction_strategy._remembered


def test_a_flush_with_new_weights_is_no_eviction() -> None:
    sim = new_simulation("lru")
    ask(sim, A)
    new_weights(sim, flush=True)
    assert sim.cache.statistics.resident.evicted_documents == 0
    ask(sim, A)
    (document,) = sim.cache.statistics.resident.hottest(9)
    assert document.namespace is None, "text is shared with prompts without documents again"


def test_lfu_counts_a_document_once_in_a_prompt() -> None:
    sim = new_simulation("lfu")
    ask(sim, A, A, A, seed=1)
    ask(sim, B, seed=2)
    ask(sim, B, seed=3)
    assert first_out(sim, A, B) is A


def test_documents_of_one_prompt_leave_in_one_order() -> None:
    """Ranks of tensor parallelism evict alike, so no two leaves of a prompt may be equal."""
    sim = new_simulation("lru")
    documents = [doc(100 + i, 1) for i in range(20)]
    ask(sim, *documents)
    times = [node.last_access_time for node in sim.cache.evictable_leaves]
    assert len(set(times)) == len(times) == 21
    assert first_out(sim, *documents) is documents[0]


def test_popular_documents_survive_a_scan() -> None:
    """Under lru, documents that are used once would have pushed A out."""
    sim = new_simulation("gdsf", num_slots=100)
    for seed in range(4):
        ask(sim, A, seed=seed)
    for seed in range(20):
        ask(sim, doc(*range(1000 + 10 * seed, 1010 + 10 * seed)), seed=seed)
    assert is_cached(sim, A)


def test_what_is_not_used_any_more_goes() -> None:
    """However popular it was, after at most as many turnovers of the cache as it had uses."""
    sim = new_simulation("gdsf", num_slots=100)
    uses = 6
    for seed in range(uses):
        ask(sim, A, seed=seed)
    scanned, per_turnover = 0, 100 // 10
    while is_cached(sim, A) and scanned <= per_turnover * uses:
        ask(sim, doc(*range(1000 + 10 * scanned, 1010 + 10 * scanned)), seed=scanned)
        scanned += 1
    assert per_turnover < scanned <= per_turnover * uses


def uses(sim: Simulation, document: tuple) -> int:
    (node,) = (n for n in tree_nodes(sim.cache) if n.key.token_ids[0] == document[1][0])
    return sim.cache.eviction_strategy.uses(node)


def test_uses_are_remembered_when_a_document_is_evicted() -> None:
    sim = new_simulation("gdsf")
    for seed in range(3):
        ask(sim, A, seed=seed)
    ask(sim, B)
    sim.evict(400)
    ask(sim, A, B, C)
    assert [uses(sim, document) for document in (A, B, C)] == [4, 2, 1]
    # One namespace's popularity is nobody else's.
    run = sim.start(replace(Prompt.of(A, text(200)), extra_key="other"))
    sim.finish(sim.prefill(run))
    assert sorted(
        sim.cache.eviction_strategy.uses(node)
        for node in tree_nodes(sim.cache)
        if node.key.token_ids[0] == A[1][0]
    ) == [1, 4]


def test_what_is_split_while_it_is_computed_keeps_its_past() -> None:
    sim = new_simulation("gdsf")
    whole, head = Prompt.of(text(*range(10, 30))), Prompt.of(text(*range(10, 20), 99))
    for _ in range(3):
        sim.serve(whole)
    sim.evict(400)
    long = sim.prefill(sim.start(whole))
    other = sim.prefill(sim.start(head))
    first_tokens = {node.key.token_ids[0]: node for node in tree_nodes(sim.cache)}
    strategy = sim.cache.eviction_strategy
    assert {token: strategy.uses(node) for token, node in first_tokens.items()} == {
        10: 5, 20: 4, 99: 1,
    }  # fmt: skip
    sim.finish(long)
    sim.finish(other)


def test_a_retracted_request_counts_once() -> None:
    sim = new_simulation("gdsf")
    ask(sim, A)
    run = sim.prefill(sim.start(Prompt.of(A, text(200))))
    sim.retract(run)
    sim.finish(sim.prefill(sim.admit(run)))
    assert uses(sim, A) == 2


def test_memory_of_the_past_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "MAX_REMEMBERED", 2)
    sim = new_simulation("gdsf")
    for document in (A, B, C):
        ask(sim, document)
        sim.evict(400)
    ask(sim, A, B, C)
    assert [uses(sim, document) for document in (A, B, C)] == [1, 2, 2]


def test_text_that_took_longer_to_compute_stays_longer() -> None:
    """By depth; and evicting a document does not make the text behind it invalid."""
    params = replace(init_params(400), eviction_policy="gdsf")
    sim = Simulation(cache=LazyPrefixCache(params, SINK, 7, break_even_keys=10))
    deep, shallow = Prompt.of(A, B, text(50, 51, 52)), Prompt.of(C, text(60, 61, 62))
    sim.serve(deep)
    sim.serve(shallow)
    order = []
    while nodes := {node.key.token_ids[0] for node in tree_nodes(sim.cache)}:
        sim.evict(1)
        order += nodes - {node.key.token_ids[0] for node in tree_nodes(sim.cache)}
    assert order == [10, 20, 30, 60, 50]


def test_cost_is_the_sum_over_tokens() -> None:
    policy = GreedyDual(break_even_keys=100)
    tokens = [policy.cost_per_token(start, 1) for start in range(7, 12)]
    assert sum(tokens) == pytest.approx(5 * policy.cost_per_token(7, 5))
    assert policy.cost_per_token(99, 1) == 2


def test_a_new_start_after_a_flush() -> None:
    sim = new_simulation("gdsf")
    for seed in range(5):
        ask(sim, A, seed=seed)
    sim.evict(400)
    assert sim.cache.eviction_strategy.clock > 0
    sim.flush()
    assert sim.cache.eviction_strategy.clock == 0
    ask(sim, B)
    sim.evict(400)
    sim.check()


def test_heap_stays_small() -> None:
    """However often a leaf is locked and unlocked, during evictions or between them."""
    sim = new_simulation("lru")
    for i in range(20):
        ask(sim, doc(100 + i, 1), seed=i)
    leaves = sim.cache.evictable_leaves
    assert isinstance(leaves, LeafHeap)
    for i in range(300):
        for node in list(leaves):
            sim.cache.inc_lock_ref(node)
            sim.cache.dec_lock_ref(node)
        if i % 2:
            leaves.lowest()
    assert len(leaves) == 40
    assert leaves.num_entries <= 2 * len(leaves) + 256
    evicted = sim.cache.evict(EvictParams(num_tokens=10_000)).num_tokens_evicted
    assert evicted == 60 and not sim.cache.evictable_leaves
