"""The cache under random traffic: random prompts, cuts, aborts, retractions and evictions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sglang.srt.mem_cache.radix_cache import RadixCache

from .pool import SINK, init_params, tree_slots
from .prompts import Prompt, doc, text
from .simulation import Running, Simulation

# Documents that are heads of each other, differ in their last token, or are one token.
DOCUMENTS = st.sampled_from([doc(5), doc(5, 6), doc(5, 6, 7, 8), doc(5, 6, 7, 9), doc(SINK, 5)])
TEXTS = st.sampled_from([text(SINK), text(SINK, 1), text(1, 2), text(1, 2, 3), text(5, 6)])
TOKENS = st.integers(0, 9)
POLICIES = ("lru", "lfu", "slru", "priority", "fifo", "mru", "gdsf")


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    segments = []
    for document in draw(st.lists(DOCUMENTS, max_size=4)):
        if draw(st.booleans()):
            segments.append(draw(TEXTS))
        segments.append(document)
    mode = draw(st.sampled_from(["none", "sink", "preamble"]))
    extra_key, lora_id = draw(st.sampled_from([(None, None)] * 4 + [("a", None), (None, "b")]))
    link_tokens = draw(st.sampled_from([0, 0, 1, 2, 3]))
    return Prompt((*segments, draw(TEXTS)), mode, extra_key, lora_id, link_tokens)


class TrafficMachine(RuleBasedStateMachine):
    num_slots = 60
    exact = True

    @initialize(policy=st.sampled_from(POLICIES))
    def start(self, policy: str) -> None:
        self.sim = Simulation(self.num_slots, self.exact, policy=policy)
        self.retracted: list[Running] = []

    @rule(
        prompt=prompts(),
        logprob_start_len=st.sampled_from([None, None, None, 0, 1, 3, 7]),
        tokens=st.integers(1, 12),
    )
    def admit(self, prompt: Prompt, logprob_start_len: int | None, tokens: int) -> None:
        self.begin(self.sim.new(prompt, logprob_start_len), tokens)

    def begin(self, run: Running, tokens: int) -> None:
        """Admit, where there is room, and compute the first chunk, which is not yet stored."""
        cache = self.sim.cache
        room = self.sim.allocator.available_size() + cache.evictable_size()
        if len(self.sim.running) < 5 and room > 2 * len(run.ids):
            self.sim.admit(run)
            self.sim.compute(run, tokens)

    @rule(prompt=prompts())
    def match_only(self, prompt: Prompt) -> None:
        """Matched for admission, and then not admitted."""
        if self.has_room(1):
            self.sim.match(self.sim.new(prompt))

    @precondition(lambda self: self.computed())
    @rule(index=st.integers(0, 99))
    def store(self, index: int) -> None:
        runs = self.computed()
        self.sim.store(runs[index % len(runs)])

    @precondition(lambda self: self.between_chunks())
    @rule(index=st.integers(0, 99), tokens=st.integers(1, 12))
    def next_chunk(self, index: int, tokens: int) -> None:
        runs = self.between_chunks()
        run = runs[index % len(runs)]
        missing = len(run.ids) - run.req.kv_committed_len
        if self.has_room(min(tokens, missing)):
            self.sim.compute(run, tokens)

    @precondition(lambda self: self.decoding())
    @rule(index=st.integers(0, 99), token=TOKENS)
    def decode(self, index: int, token: int) -> None:
        runs = self.decoding()
        run = runs[index % len(runs)]
        if self.has_room(1) and len(run.req.output_ids) < 6:
            self.sim.decode(run, token)
        else:
            self.sim.retract(run)
            self.retracted.append(run)

    @precondition(lambda self: self.retracted)
    @rule(tokens=st.integers(1, 12))
    def resume(self, tokens: int) -> None:
        self.begin(self.retracted.pop(), tokens)

    @precondition(lambda self: self.decoding())
    @rule(index=st.integers(0, 99))
    def finish(self, index: int) -> None:
        runs = self.decoding()
        self.sim.finish(runs[index % len(runs)])

    @precondition(lambda self: self.sim.running)
    @rule(index=st.integers(0, 99))
    def abort(self, index: int) -> None:
        self.sim.finish(self.sim.running[index % len(self.sim.running)], is_insert=False)

    @rule(tokens=st.integers(1, 30))
    def evict(self, tokens: int) -> None:
        self.sim.evict(tokens)

    @precondition(lambda self: not self.sim.running)
    @rule()
    def flush(self) -> None:
        self.sim.flush()

    @invariant()
    def all_is_right(self) -> None:
        self.sim.check()

    def has_room(self, tokens: int) -> bool:
        return self.sim.allocator.available_size() + self.sim.cache.evictable_size() >= tokens

    def computed(self) -> list[Running]:
        return [run for run in self.sim.running if run.is_pending]

    def between_chunks(self) -> list[Running]:
        return [run for run in self.sim.running if not run.is_pending and not run.is_prefilled]

    def decoding(self) -> list[Running]:
        return [run for run in self.sim.running if not run.is_pending and run.is_prefilled]


TestTraffic = TrafficMachine.TestCase
TestTraffic.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(prompts(), st.integers(1, 12)), min_size=1, max_size=6))
def test_every_possible_hit_happens(traffic: list[tuple[Prompt, int]]) -> None:
    """In a pool that never fills, whatever was computed once is never computed again."""
    sim = Simulation()
    for prompt, chunk in traffic:
        sim.serve(prompt, chunk, output=[3, 4])
    for prompt, _ in traffic:
        assert sim.serve(prompt) == len(prompt.ids) - 1


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(st.tuples(TEXTS, st.lists(TOKENS, max_size=4)), min_size=1, max_size=12),
    chunk=st.integers(1, 9),
    policy=st.sampled_from(["lru", "lfu", "slru", "fifo", "mru"]),
)
def test_plain_prompts_are_served_as_by_stock(
    turns: list[tuple[tuple[bool, tuple[int, ...]], list[int]]], chunk: int, policy: str
) -> None:
    """A conversation that restarts when it gets long: same hits, same slots, same sizes."""
    params = replace(init_params(80), eviction_policy=policy)
    sims = Simulation(80, policy=policy), Simulation(cache=RadixCache(params))
    history: tuple[int, ...] = ()
    for (_, tokens), output in turns:
        prompt = Prompt.of(text(*history, *tokens))
        hits = [sim.serve(prompt, chunk, output) for sim in sims]
        assert hits[0] == hits[1]
        assert sorted(tree_slots(sims[0].cache)) == sorted(tree_slots(sims[1].cache))
        history = (*prompt.ids, *output) if len(prompt.ids) < 30 else ()
