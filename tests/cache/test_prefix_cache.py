"""The cache under a scheduler's calls: what hits, where it lies, who owns it."""

from __future__ import annotations

import pytest
from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
from sglang.srt.mem_cache.radix_cache import RadixKey

from sglang_lazy.cache.context import ContextTable
from sglang_lazy.cache.request_state import admitted_state
from sglang_lazy.request import ChunkContext

from .pool import SINK
from .prompts import Prompt, doc, text
from .simulation import Simulation

MODES: list[ChunkContext] = ["none", "sink", "preamble"]
S, S2 = text(SINK, 1, 2), text(SINK, 3, 4, 5, 6)
A, B = doc(*range(10, 18)), doc(*range(20, 25))
Q, Q2 = text(30, 31, 32), text(40, 41)


@pytest.fixture
def sim() -> Simulation:
    return Simulation()


def test_documents_hit_in_other_order_and_at_other_offsets(sim: Simulation) -> None:
    assert sim.serve(Prompt.of(S, A, B, Q, mode="sink")) == 0
    # S2 shares its first token with S.
    assert sim.serve(Prompt.of(S2, B, A, Q2, mode="sink")) == 1 + len(B[1]) + len(A[1])
    assert sim.serve(Prompt.of(B, Q2, A, Q, mode="sink")) == len(B[1]) + len(A[1])


@pytest.mark.parametrize("mode", MODES)
def test_exact_repeat_computes_one_token(sim: Simulation, mode: ChunkContext) -> None:
    prompt = Prompt.of(S, A, Q, B, Q2, mode=mode)
    sim.serve(prompt)
    assert sim.serve(prompt) == len(prompt.ids) - 1


def test_preamble_is_part_of_a_document_key(sim: Simulation) -> None:
    sim.serve(Prompt.of(S, A, B, Q, mode="preamble"))
    assert sim.serve(Prompt.of(S2, A, B, Q, mode="preamble")) == 1  # the texts' common head
    assert sim.serve(Prompt.of(S, B, A, Q, mode="preamble")) == len(S[1] + A[1] + B[1])


def test_modes_do_not_share_documents_encoded_differently(sim: Simulation) -> None:
    sim.serve(Prompt.of(text(1, 2), A, Q, mode="none"))
    assert sim.serve(Prompt.of(text(1, 2), A, Q, mode="preamble")) == 2
    assert sim.serve(Prompt.of(text(1, 2), A, Q, mode="sink")) == 2


def test_one_document_twice(sim: Simulation) -> None:
    run = sim.prefill(sim.start(Prompt.of(S, A, A, Q, mode="sink")))
    sim.check()
    row = sim.row(run).tolist()
    first, n = len(S[1]), len(A[1])
    assert row[first : first + n] == row[first + n : first + 2 * n], "two copies were kept"
    sim.finish(run)
    assert sim.serve(Prompt.of(A, A, A, Q2, mode="sink")) == 3 * n


@pytest.mark.parametrize("tokens", [1, 2, 5, 9, 14])
def test_one_document_twice_in_chunks(sim: Simulation, tokens: int) -> None:
    sim.serve(Prompt.of(S, A, A, B, A, Q, mode="sink"), chunk=tokens)
    assert sim.serve(Prompt.of(S, A, Q2, mode="sink")) == len(S[1] + A[1])


def test_concurrent_requests_keep_one_copy_of_a_document(sim: Simulation) -> None:
    one = sim.start(Prompt.of(S, A, Q, mode="sink"))
    other = sim.start(Prompt.of(S2, B, A, Q2, mode="sink"))
    sim.compute(one)
    sim.compute(other)
    sim.store(one)
    sim.store(other)
    sim.check()
    places = range(len(S[1]), len(S[1] + A[1]))
    kept = sim.row(one)[places.start : places.stop].tolist()
    start = len(S2[1] + B[1])
    assert sim.row(other)[start : start + len(A[1])].tolist() == kept
    sim.finish(one)
    sim.check()
    sim.finish(other)
    sim.check()


def test_concurrent_requests_keep_one_copy_of_a_detached_sink(sim: Simulation) -> None:
    one = sim.start(Prompt.of(A, Q, mode="sink"))
    other = sim.start(Prompt.of(B, Q2, mode="sink"))
    sim.compute(one)
    sim.compute(other)
    sim.store(other)
    sim.store(one)
    sim.check()
    sink, same = (admitted_state(run.req).sink.slots for run in (one, other))
    assert sink.tolist() == same.tolist()


def test_unwritten_sink_is_invisible_to_plain_prompts(sim: Simulation) -> None:
    """A request that was matched but not admitted leaves nothing that another could read."""
    sim.match(sim.new(Prompt.of(A, Q, mode="sink")))
    assert sim.serve(Prompt.of(text(SINK, 8, 9))) == 0


def test_unwritten_sink_is_invisible_to_prompts_that_begin_with_it(sim: Simulation) -> None:
    sim.match(sim.new(Prompt.of(A, Q, mode="sink")))
    assert sim.serve(Prompt.of(S, B, Q, mode="sink")) == 0


def test_partly_cached_document_gives_its_head(sim: Simulation) -> None:
    run = sim.start(Prompt.of(S, A, Q))
    sim.compute(run, len(S[1]) + 5)
    sim.store(run)
    sim.check()
    sim.finish(run, is_insert=False)
    assert sim.serve(Prompt.of(S2, A, Q2)) == 1 + 5
    assert sim.serve(Prompt.of(S2, A, Q2)) == len(S2[1] + A[1] + Q2[1]) - 1


def test_text_hits_after_an_evicted_document(sim: Simulation) -> None:
    prompt = Prompt.of(text(1, 2), A, Q, B, Q2, mode="none")
    sim.serve(prompt)
    sim.serve(Prompt.of(text(1, 2, 9)))  # the first document is now the least recently used
    sim.evict(1)
    run = sim.start(prompt)
    assert run.cached[1] == 0, "the document was not evicted"
    assert (run.cached[2], run.cached[4]) == (len(Q[1]), len(Q2[1]) - 1)
    sim.prefill(run)
    sim.check()


def test_next_turn_hits_the_answer(sim: Simulation) -> None:
    sim.serve(Prompt.of(S, A, Q, mode="sink"), output=[50, 51, 52])
    turn = Prompt.of(S, A, text(*Q[1], 50, 51, 52, 60), mode="sink")
    assert sim.serve(turn) == len(turn.ids) - 1


def test_one_document_is_not_two_halves(sim: Simulation) -> None:
    tokens = tuple(range(100, 132))
    sim.serve(Prompt.of(doc(*tokens), Q, mode="none"))
    halves = Prompt.of(doc(*tokens[:16]), doc(*tokens[16:]), Q, mode="none")
    # The first half is a head of the document; nothing else may hit, the question least.
    assert sim.serve(halves) == 16


def test_text_after_documents_is_not_plain_text(sim: Simulation) -> None:
    sim.serve(Prompt.of(A, Q, mode="none"))
    assert sim.serve(Prompt.of(text(*Q[1], 7))) == 0
    # Encoded with nothing before itself, a document is what a plain prompt would be.
    assert sim.serve(Prompt.of(text(*A[1], *Q[1]))) == len(A[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"extra_key": "a"}, {"extra_key": "b"}),
        ({"extra_key": "a"}, {}),
        ({"lora_id": "a"}, {"extra_key": "a"}),
        ({"extra_key": "ab", "lora_id": "c"}, {"extra_key": "a", "lora_id": "bc"}),
    ],
)
def test_namespaces_isolate(sim: Simulation, one: dict[str, str], other: dict[str, str]) -> None:
    segments = (A, Q, B, Q2)
    sim.serve(Prompt(segments, "sink", **one))
    assert sim.serve(Prompt(segments, "sink", **other)) == 0
    assert sim.serve(Prompt(segments, "sink", **one)) == len(Prompt(segments).ids) - 1


@pytest.mark.parametrize("start", [0, 1, 5, 9, 13, 14])
def test_nothing_behind_logprob_start_comes_from_the_cache(sim: Simulation, start: int) -> None:
    prompt = Prompt.of(S, A, Q, mode="sink")
    sim.serve(prompt)
    run = sim.start(prompt, logprob_start_len=start)
    assert len(run.req.prefix_indices) == min(start, len(prompt.ids) - 1)
    sim.prefill(run, chunk=4)
    sim.check()
    sim.finish(run)
    sim.check()


def test_ordering_the_queue_leaves_the_request_alone(sim: Simulation) -> None:
    prompt = Prompt.of(S, A, Q, mode="sink")
    sim.serve(prompt)
    run = sim.new(prompt)
    ids = run.req.origin_input_ids + run.req.output_ids
    params = MatchPrefixParams(key=RadixKey(ids, None), req=run.req)
    result = sim.cache.match_prefix(params)
    assert len(result.device_indices) == len(prompt.ids)
    assert len(run.req.full_untruncated_fill_ids) == 0 and admitted_state(run.req) is None


def test_abort_between_chunks_frees_what_was_not_stored(sim: Simulation) -> None:
    run = sim.start(Prompt.of(S, A, Q, mode="sink"))
    sim.compute(run, 5)
    sim.store(run)
    sim.compute(run, 5)
    sim.finish(run, is_insert=False)
    sim.check()
    assert sim.cache.evictable_size() == 5


def test_retracted_request_goes_on(sim: Simulation) -> None:
    prompt = Prompt.of(S, A, Q, mode="sink")
    run = sim.prefill(sim.start(prompt))
    for token in (50, 51):
        sim.decode(run, token)
    sim.retract(run)
    sim.check()
    sim.admit(run)
    assert len(run.req.prefix_indices) == len(prompt.ids)  # the answer was not stored
    sim.prefill(run)
    sim.decode(run, 52)
    sim.check()
    sim.finish(run)
    sim.check()


def test_flush_forgets_everything(sim: Simulation) -> None:
    prompt = Prompt.of(A, Q, mode="sink")
    sim.serve(prompt)
    sim.flush()
    assert sim.serve(prompt) == 0


def test_sink_in_a_full_pool_is_not_admitted() -> None:
    sim = Simulation(num_slots=16)
    sim.prefill(sim.start(Prompt.of(text(1, 2, 3), A, text(*range(40, 45)))))
    run = sim.new(Prompt.of(B, Q, mode="sink"))
    run.req.init_next_round_input(sim.cache)
    assert len(run.req.prefix_indices) == 0 and admitted_state(run.req) is None
    sim.check()


def test_colliding_hashes_are_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    full = ContextTable.digest
    monkeypatch.setattr(ContextTable, "digest", lambda self, data: full(self, data)[:8])
    short = Simulation(exact=True)
    short.serve(Prompt.of(A, Q, mode="none"))
    assert short.serve(Prompt.of(A, Q, mode="none")) == len(A[1] + Q[1]) - 1

    monkeypatch.setattr(ContextTable, "digest", lambda self, data: b"same")
    sim = Simulation(exact=False)
    for first in range(100, 110):
        document = doc(first, 7, 7)
        # Behind every document, the same question: a hit would be another document's KV.
        assert sim.serve(Prompt.of(document, Q, mode="none")) == 0
        assert sim.serve(Prompt.of(B, document, Q, mode="none")) <= len(B[1]) + 3
