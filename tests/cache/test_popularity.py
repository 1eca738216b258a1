"""How often a node was used, against a count of requests by token, under random traffic."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import initialize, invariant
from pytest import MonkeyPatch

from sglang_lazy.cache import eviction
from sglang_lazy.cache.context import TextContext
from sglang_lazy.cache.request_state import admitted_state

from .pool import tree_nodes
from .prompts import Content
from .simulation import Running, Simulation
from .test_prefix_cache_random import TrafficMachine


class CountingSimulation(Simulation):
    """``uses``: by token in the tree, requests that computed or found it."""

    def __init__(self, num_slots: int) -> None:
        super().__init__(num_slots, policy="gdsf")
        self.uses: dict[Content, int] = {}

    def admit(self, run: Running) -> Running:
        counts = not run.req.retracted_stain
        super().admit(run)
        self.forget()
        if counts:
            for content in self.found(run):
                self.uses[content] += 1
        return run

    def found(self, run: Running) -> set[Content]:
        """What the request found, each token once, and what stands before it on its path."""
        parts = run.prompt.contents(run.ids)
        found = {c for part, n in zip(parts, run.cached, strict=True) for c in part[:n]}
        state = admitted_state(run.req)
        for part, detached in [(None, state.sink), *state.heads.items()] if state else ():
            if detached is not None:
                found |= set(run.prompt.detached_contents(part)[: detached.num_cached])
        return {(ns, kind, path[: i + 1]) for ns, kind, path in found for i in range(len(path))}

    def forget(self) -> None:
        """Drop what was evicted."""
        in_tree = self.contents_in_tree()
        self.uses = {content: n for content, n in self.uses.items() if content in in_tree}

    def learn(self) -> None:
        """Take in what was stored: used once, by who computed it."""
        self.forget()
        for content in self.contents_in_tree():
            self.uses.setdefault(content, 1)


class PopularityMachine(TrafficMachine):
    @initialize()
    def start(self) -> None:
        self.patch = MonkeyPatch()
        self.patch.setattr(eviction, "MAX_REMEMBERED", 0)  # what was evicted starts anew
        self.sim: CountingSimulation = CountingSimulation(self.num_slots)
        self.retracted: list[Running] = []

    def teardown(self) -> None:
        self.patch.undo()

    @invariant()
    def each_request_counts_once(self) -> None:
        self.sim.learn()
        strategy = self.sim.cache.eviction_strategy
        for node in tree_nodes(self.sim.cache):
            if node not in self.sim.cache._private:
                uses = {self.sim.uses[self.sim.written[slot]] for slot in node.value.tolist()}
                assert uses == {strategy.uses(node)}

    @invariant()
    def splits_keep_the_depth(self) -> None:
        for node in tree_nodes(self.sim.cache):
            depth, namespace, above = 0, node.key.extra_key, node.parent
            while above.parent is not None:
                depth += len(above.key)
                above = above.parent
            if isinstance(namespace, TextContext):
                depth += sum(len(segment) for segment in namespace.segments)
            assert self.sim.cache.eviction_strategy.start(node) == depth


TestPopularity = PopularityMachine.TestCase
TestPopularity.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
