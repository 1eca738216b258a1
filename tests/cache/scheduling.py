"""SGLang's rounds of admission over the simulated cache, with its own ``PrefillAdder``.

What the scheduler does between two passes is small enough to be spelled out here: without
overlap a pass's result is processed before the next round, with overlap after it.
"""

from __future__ import annotations

from types import SimpleNamespace

from sglang.srt.managers.schedule_policy import AddReqResult, PrefillAdder

from sglang_lazy.cache.request_state import admitted_state
from sglang_lazy.patches import prefill_adder

from .prompts import Prompt
from .simulation import Running, Simulation

MAX_NEW_TOKENS = 4


class Scheduler:
    """Requests from the queue to the end of their prefill, after which they run until ended.

    Args:
        sim: the cache, and what every slot holds.
        chunk_size: tokens of prompts in one pass; None for no limit.
        overlap: whether a pass is planned before the last one's result is processed.
    """

    def __init__(
        self, sim: Simulation, chunk_size: int | None = None, overlap: bool = True
    ) -> None:
        self.sim = sim
        self.chunk_size = chunk_size
        self.overlap = overlap
        self.queue: list[Running] = []
        self.chunked: Running | None = None
        self.last_pass: list[Running] = []
        self.running: list[Running] = []
        self.num_computed = 0
        """Tokens of prompts that were computed."""

    def submit(self, prompt: Prompt) -> Running:
        run = self.sim.new(prompt)
        run.req.sampling_params.max_new_tokens = MAX_NEW_TOKENS
        self.queue.append(run)
        return run

    def round(self) -> list[Running]:
        """Admit, compute, process a result; returns what was admitted or went on."""
        if self.chunked is not None:
            self.sim.store(self.chunked)
        adder = self.new_adder()
        chunked = self.chunked
        if chunked is not None:
            chunked.req.init_next_round_input()
            adder.add_chunked_req(chunked.req)
        for run in list(self.queue):
            if not self._admit(adder, run):
                break
        computed = [run for run in self.sim.running if run.req in adder.can_run_list]
        self.chunked = None
        for run in computed:
            start, end = run.req.extend_range.start, run.req.extend_range.end
            self.sim.compute(run, end - start)
            self.num_computed += end - start
            if not run.is_prefilled:
                assert self.chunked is None, "two prompts are chunked at once"
                self.chunked = run
        finished = [run for run in computed if run is not self.chunked]
        self._process(self.last_pass if self.overlap else finished)
        self.last_pass = finished if self.overlap else []
        self.sim.check()
        return computed

    def new_adder(self) -> PrefillAdder:
        running = SimpleNamespace(reqs=[run.req for run in self.running])
        max_input_tokens = 1 << 20
        return PrefillAdder(
            1,
            self.sim.cache,
            self.sim.allocator,
            running,
            1.0,
            max_input_tokens,
            self.chunk_size,
        )

    def _admit(self, adder: PrefillAdder, run: Running) -> bool:
        """Whether the round goes on."""
        run.req.init_next_round_input(self.sim.cache)
        result = prefill_adder.add_one_req(
            PrefillAdder.add_one_req, adder, run.req, adder.new_chunked_req is not None, None
        )
        if run.req in adder.can_run_list:
            self.queue.remove(run)
            state = admitted_state(run.req)
            self._check_weights(run)
            hit = [len(run.req.prefix_indices)] if state is None else list(state.layout.cached)
            run.cached = hit
            self.sim.forget_unwritten(state)
            self.sim.running.append(run)
        return result == AddReqResult.CONTINUE

    def _check_weights(self, run: Running) -> None:
        """What a prompt with documents takes from the cache was computed with these weights."""
        state = admitted_state(run.req)
        if state is None:
            return
        found = run.req.prefix_indices.tolist()
        for detached in state.detached():
            found += detached.slots[: detached.num_cached].tolist()
        assert all(self.sim.written_with[slot] == self.sim.weights for slot in found), "stale KV"

    def new_weights(self, flush: bool) -> None:
        """As the hook does it: SGLang flushes on request, if the server is idle."""
        self.sim.weights += 1
        self.sim.cache.expire_documents()
        if flush:
            self.sim.flush()
        self.sim.cache.evict_documents()

    def _process(self, finished: list[Running]) -> None:
        for run in finished:
            if run in self.sim.running:
                self.sim.store(run)
                self.running.append(run)

    def abort(self, run: Running) -> None:
        """At any stage."""
        if run in self.queue:
            self.queue.remove(run)
            return
        self.sim.finish(run, is_insert=False)
        self._forget(run)

    def retract(self, run: Running) -> None:
        self.sim.retract(run)
        self._forget(run)
        self.queue.append(run)

    def finish(self, run: Running) -> None:
        self.sim.finish(run)
        self._forget(run)

    def _forget(self, run: Running) -> None:
        if run is self.chunked:
            self.chunked = None
        for runs in (self.running, self.last_pass):
            if run in runs:
                runs.remove(run)

    def run_until_idle(self, rounds: int = 200) -> int:
        """Let every request end as soon as its prompt is computed; returns the rounds it took."""
        for count in range(rounds):
            if not (self.queue or self.last_pass or self.chunked or self.running):
                return count
            self.round()
            for run in list(self.running):
                self.finish(run)
        raise AssertionError(f"{len(self.queue)} requests wait for ever")
