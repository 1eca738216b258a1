"""Requests that want the same cold documents: computed once, nobody starves, nobody reads garbage.

Every round checks every slot that a request uses, and the accounts.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sglang.srt.managers import schedule_policy
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.schedule_policy import PrefillAdder

from sglang_lazy.cache import in_flight
from sglang_lazy.patches import prefill_adder
from sglang_lazy.patches import scheduler as scheduler_hooks

from .prompts import Prompt, doc, text
from .scheduling import Scheduler
from .simulation import Simulation

WORTH = 8
X, Y, Z = doc(*range(100, 120)), doc(*range(200, 220)), doc(*range(300, 320))
Q = text(30, 31, 32)


@pytest.fixture(autouse=True)
def process_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short documents are worth waiting for, and there is no context parallelism."""
    monkeypatch.setattr(in_flight, "WORTH_WAITING", WORTH)
    for name in ("is_dsa_prefill_cp_in_seq_split", "is_prefill_context_parallel_enabled"):
        monkeypatch.setattr(schedule_policy, name, lambda: False)


@pytest.fixture(params=[True, False], ids=["overlap", "no overlap"])
def overlap(request: pytest.FixtureRequest) -> bool:
    return request.param


def make(overlap: bool, chunk_size: int | None = None, num_slots: int = 2000) -> Scheduler:
    sim = Simulation(num_slots=num_slots, num_rows=32, exact=False)
    return Scheduler(sim, chunk_size, overlap)


@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
@pytest.mark.parametrize("chunk_size", [None, 12, 37, 300])
def test_cold_document_is_computed_once(overlap: bool, chunk_size: int | None, mode: str) -> None:
    """Sixteen prompts want it at once, at different places (case 5)."""
    scheduler = make(overlap, chunk_size)
    texts = [text(7 if mode == "preamble" else i, 8, 9) for i in range(16)]
    for i in range(16):
        scheduler.submit(Prompt.of(texts[i], X, text(40 + i, 2), mode=mode))
    scheduler.run_until_idle()
    others = 16 * 2 + (3 if mode == "preamble" else 16 * 3)
    assert scheduler.num_computed == len(X[1]) + others


def test_two_that_want_each_others_documents(overlap: bool) -> None:
    scheduler = make(overlap, 16)
    for segments in ((X, Y, Q), (Y, X, Q), (Z, Y, Q), (X, Z, Q)):
        scheduler.submit(Prompt.of(text(len(scheduler.queue)), *segments, mode="sink"))
    scheduler.run_until_idle()
    texts = 4 * (1 + len(Q[1]))
    assert scheduler.num_computed == 3 * len(X[1]) + texts


def test_waits_for_a_document_and_not_for_the_whole_prompt(overlap: bool) -> None:
    """The prompt that brings it is long, and prefilled in chunks."""
    scheduler = make(overlap, 32)
    scheduler.submit(Prompt.of(X, Y, text(*range(400, 404)), mode="none"))
    first = scheduler.round()
    waiting = scheduler.submit(Prompt.of(X, Q, mode="none"))
    admitted = scheduler.round()
    assert first[0] in admitted and waiting in admitted
    assert waiting.cached[0] == len(X[1])


@pytest.mark.parametrize("how", ["abort", "retract"])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_the_one_who_computes_it_is_stopped(overlap: bool, how: str, rounds: int) -> None:
    """Between any two chunks: who waits takes what there is and computes the rest."""
    scheduler = make(overlap, 8)
    first = scheduler.submit(Prompt.of(text(1), X, Q, mode="sink"))
    waiting = scheduler.submit(Prompt.of(text(2), X, Q, mode="sink"))
    for _ in range(rounds):
        scheduler.round()
        assert waiting in scheduler.queue
    getattr(scheduler, how)(first)
    scheduler.sim.check()
    scheduler.run_until_idle()
    assert waiting.cached[1] <= 8 * rounds


def test_the_one_who_waits_is_stopped(overlap: bool) -> None:
    scheduler = make(overlap, 8)
    scheduler.submit(Prompt.of(text(1), X, Q, mode="sink"))
    waiting = scheduler.submit(Prompt.of(text(2), X, Q, mode="sink"))
    scheduler.round()
    scheduler.abort(waiting)
    scheduler.run_until_idle()


def test_long_prompts_do_not_overtake_one_who_waits(overlap: bool) -> None:
    """A prompt that fills the passes to come is not begun in what is left of this one."""
    scheduler = make(overlap, 40)
    scheduler.submit(Prompt.of(text(1), X, Q, mode="none"))
    waiting = scheduler.submit(Prompt.of(text(2), X, Q, mode="none"))
    long = scheduler.submit(Prompt.of(text(*range(1000, 1400))))
    short = scheduler.submit(Prompt.of(text(3, 4)))
    admitted = scheduler.round()
    assert short in admitted and long not in admitted and waiting not in admitted
    order = [run for _ in range(3) for run in scheduler.round() if run in (waiting, long)]
    assert order[0] is waiting and long in order


def test_overtaken_once_and_not_for_ever(overlap: bool) -> None:
    """Those behind it bring one of its documents after the other."""
    scheduler = make(overlap)
    scheduler.submit(Prompt.of(text(1), X, Q, mode="none"))
    waiting = scheduler.submit(Prompt.of(text(2), X, Y, Z, Q, mode="none"))
    scheduler.round()
    assert waiting in scheduler.queue
    for i, document in enumerate((Y, Z)):
        scheduler.submit(Prompt.of(text(5 + i), document, Q, mode="none"))
        scheduler.queue.sort(key=lambda run: run is waiting)  # some policies do
        scheduler.round()
    assert waiting not in scheduler.queue


def test_waiting_costs_no_look_at_the_tree(monkeypatch: pytest.MonkeyPatch, overlap: bool) -> None:
    scheduler = make(overlap, 4)
    scheduler.submit(Prompt.of(text(1), X, Q, mode="sink"))
    waiting = scheduler.submit(Prompt.of(text(2), X, Q, mode="sink"))
    scheduler.round()
    matched = []
    match_prompt = scheduler.sim.cache.match_prompt
    monkeypatch.setattr(
        scheduler.sim.cache,
        "match_prompt",
        lambda *args, **kwargs: matched.append(args) or match_prompt(*args, **kwargs),
    )
    while waiting in scheduler.queue:
        matched.clear()
        scheduler.round()
    assert len(matched) == 1, "looked at again before what it waits for was there"
    assert waiting.cached[1] == len(X[1])


def test_nobody_is_put_back_for_a_request_that_waits(overlap: bool) -> None:
    """Priority preemption is asked before a request is matched for the first time."""
    scheduler = make(overlap, 8)
    scheduler.submit(Prompt.of(text(1), X, Q, mode="sink"))
    scheduler.round()
    adder = scheduler.new_adder()
    asked: list[Req] = []

    def preempt(adder: PrefillAdder, req: Req, server_args: None) -> bool:
        asked.append(req)
        return True

    waits, goes_on = (
        scheduler.sim.new(Prompt.of(text(2), document, Q, mode="sink")).req for document in (X, Y)
    )
    assert not prefill_adder.preempt_to_schedule(preempt, adder, waits, None)
    assert prefill_adder.preempt_to_schedule(preempt, adder, goes_on, None)
    assert asked == [goes_on]


def test_preempted_requests_are_queued_in_the_batchs_order(overlap: bool) -> None:
    """SGLang collects them from a set, whose order differs between ranks."""
    scheduler = make(overlap)
    for i in range(4):
        scheduler.submit(Prompt.of(text(i), X, Q, mode="none"))
    while len(scheduler.running) < 4:
        scheduler.round()
    adder = scheduler.new_adder()
    running = adder.running_batch.reqs
    preemptor = scheduler.sim.new(Prompt.of(text(2), Y, Q, mode="none")).req

    def preempt(adder: PrefillAdder, req: Req, server_args: None) -> bool:
        adder.preempt_list += reversed(running[1:])
        return True

    assert prefill_adder.preempt_to_schedule(preempt, adder, preemptor, None)
    assert adder.preempt_list == scheduler.sim.cache.preempted == running[1:]


@pytest.mark.parametrize("admitted", [True, False])
def test_the_preempted_are_put_back_where_sglang_forgets_them(
    overlap: bool, admitted: bool
) -> None:
    """Where somebody is admitted it has put them back, or refused them: the queue may be full."""
    cache = make(overlap).sim.cache
    refused = SimpleNamespace(rid="refused")
    queue: list[SimpleNamespace] = []
    served = SimpleNamespace(
        tree_cache=cache, waiting_queue=queue, _add_request_to_queue=queue.append
    )

    def original(self: SimpleNamespace, running_batch: None) -> SimpleNamespace:
        self.tree_cache.preempted = [refused]
        return SimpleNamespace(batch_to_run=object() if admitted else None)

    scheduler_hooks.get_new_batch_prefill(original, served, None)
    assert queue == ([] if admitted else [refused])
    assert not cache.preempted


def test_waits_again_after_a_flush(overlap: bool) -> None:
    """Nothing of what was in flight is left."""
    scheduler = make(overlap, 8)
    first = scheduler.submit(Prompt.of(text(1), X, Q, mode="sink"))
    scheduler.round()
    scheduler.abort(first)
    scheduler.sim.flush()
    scheduler.last_pass.clear()
    again = scheduler.submit(Prompt.of(text(2), X, Q, mode="sink"))
    assert again in scheduler.round()
    scheduler.run_until_idle()
