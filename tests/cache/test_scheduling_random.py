"""Random arrivals, aborts and retractions under SGLang's admission: everybody is served.

Documents of two tokens are worth waiting for, and the pool is small. SGLang counts on what it
admits to find its slots, so a pass for which there are none fails the test.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sglang.srt.managers import schedule_policy

from sglang_lazy.cache import in_flight

from .prompts import Prompt
from .scheduling import MAX_NEW_TOKENS, Scheduler
from .simulation import Running, Simulation
from .test_prefix_cache_random import prompts


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        chunk_size=st.sampled_from([None, 1, 3, 7, 16]),
        overlap=st.booleans(),
        num_slots=st.sampled_from([50, 80, 400]),
    )
    def start(self, chunk_size: int | None, overlap: bool, num_slots: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(in_flight, "WORTH_WAITING", 2)
        for name in ("is_dsa_prefill_cp_in_seq_split", "is_prefill_context_parallel_enabled"):
            self.patch.setattr(schedule_policy, name, lambda: False)
        sim = Simulation(num_slots, exact=False, num_rows=64)
        self.scheduler = Scheduler(sim, chunk_size, overlap)

    @rule(prompt=prompts())
    def submit(self, prompt: Prompt) -> None:
        if len(self.scheduler.queue) < 8:
            self.scheduler.submit(prompt)

    @rule(count=st.integers(1, 4))
    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.scheduler.round()

    def everybody(self) -> list[Running]:
        return [*self.scheduler.queue, *self.scheduler.sim.running]

    @precondition(lambda self: self.everybody())
    @rule(index=st.integers(0, 99))
    def abort(self, index: int) -> None:
        everybody = self.everybody()
        self.scheduler.abort(everybody[index % len(everybody)])

    @precondition(lambda self: self.scheduler.sim.running)
    @rule(index=st.integers(0, 99))
    def retract(self, index: int) -> None:
        running = self.scheduler.sim.running
        self.scheduler.retract(running[index % len(running)])

    @precondition(lambda self: self.scheduler.running)
    @rule(token=st.integers(0, 9))
    def decode(self, token: int) -> None:
        """A token for everybody; those for whom there is no room are put back."""
        sim = self.scheduler.sim
        for run in list(self.scheduler.running):
            room = sim.allocator.available_size() + sim.cache.evictable_size()
            if len(run.req.output_ids) == MAX_NEW_TOKENS:
                self.scheduler.finish(run)
            elif room:
                sim.decode(run, token)
            else:
                self.scheduler.retract(run)

    @precondition(lambda self: self.scheduler.running)
    @rule(index=st.integers(0, 99))
    def finish(self, index: int) -> None:
        running = self.scheduler.running
        self.scheduler.finish(running[index % len(running)])

    @rule(tokens=st.integers(1, 30))
    def evict(self, tokens: int) -> None:
        self.scheduler.sim.evict(tokens)

    @rule(flush=st.booleans())
    def new_weights(self, flush: bool) -> None:
        """Those in flight go on with what they hold; a flush is for idle servers."""
        self.scheduler.new_weights(flush and not self.everybody())

    @invariant()
    def rows_and_accounts_are_right(self) -> None:
        if hasattr(self, "scheduler"):
            self.scheduler.sim.check()

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        try:
            self.scheduler.run_until_idle()
            sim = self.scheduler.sim
            assert not sim.running and sim.cache.protected_size() == 0
            flying = sim.cache._in_flight
            assert not flying._claims and not flying._claimers
        finally:
            self.patch.undo()


TestScheduling = SchedulerMachine.TestCase
TestScheduling.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
