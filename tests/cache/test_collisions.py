"""Hashes of eight bits: a collision is a miss, never a hit of something else.

The simulation checks every row token by token, so a wrong hit fails it.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lazy.cache.context import ContextTable
from sglang_lazy.cache.in_flight import WORTH_WAITING

from .pool import SEED, SINK
from .prompts import Prompt, doc, text
from .simulation import Simulation
from .test_prefix_cache_random import prompts

MODES = ("none", "sink", "preamble")


@pytest.fixture(autouse=True)
def eight_bits() -> Iterator[None]:
    full = ContextTable.digest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ContextTable, "digest", lambda self, data: full(self, data)[:1])
        yield


@settings(max_examples=60, deadline=None)
@given(st.lists(prompts(), min_size=2, max_size=8))
def test_random_traffic(traffic: list[Prompt]) -> None:
    sim = Simulation(exact=False)
    for prompt in traffic:
        sim.serve(prompt)


@pytest.mark.parametrize("mode", MODES)
def test_many_documents_and_contexts(mode: str) -> None:
    """100 documents and as many contexts, under 256 hashes."""
    rng = random.Random(0)
    documents = [doc(100 + i, *rng.choices(range(9), k=3)) for i in range(100)]
    traffic = []
    for i in range(100):
        preamble = [text(SINK, rng.randrange(9))] * rng.randrange(2)
        chosen = [documents[i], *rng.choices(documents, k=2)]
        extra_key = rng.choice([None, "a", "b"])
        segments = (*preamble, *chosen, text(7, 8, 9))
        traffic.append(Prompt(segments, mode, extra_key, link_tokens=rng.choice([0, 0, 2])))
    sim = Simulation(num_slots=4000, exact=False)
    hits = {False: 0, True: 0}
    for is_warm in (False, True):
        for prompt in traffic:
            hits[is_warm] += sim.serve(prompt)
    expected = sum(len(prompt.ids) - 1 for prompt in traffic)
    assert hits[False] < hits[True] < expected, "nothing collided, or nothing hit"
    # Documents and the text before them are found without a hash.
    after_documents = sum(len(prompt.parts[-1].tokens) - 1 for prompt in traffic)
    assert hits[True] >= expected - after_documents - sum(p.link_tokens * 3 for p in traffic)


def colliding_documents(length: int) -> list[tuple[int, ...]]:
    """Two documents of one digest."""
    table, seen = ContextTable(SEED), {}
    for first in range(1000):
        tokens = (first, *range(2000, 2000 + length - 1))
        digest = table.digest(array("q", tokens).tobytes() + b"d")
        if digest in seen:
            return [seen[digest], tokens]
        seen[digest] = tokens
    raise AssertionError("unreachable")


@pytest.mark.parametrize("mode", MODES)
def test_text_behind_colliding_documents(mode: str) -> None:
    """The same question behind either: its KV is not shared, and each answer is found again."""
    sim = Simulation(exact=False)
    one, other = (doc(*tokens) for tokens in colliding_documents(8))
    question = text(*range(20, 30))
    first, second = (Prompt.of(text(SINK, 1), each, question, mode=mode) for each in (one, other))
    assert sim.serve(first) == 0
    assert sim.serve(second) == 2
    assert sim.serve(first) == len(first.ids) - 1
    # The document's own KV hits all the same; the text behind it never, while `first` is there.
    assert sim.serve(second) == 2 + 8


def test_nobody_waits_for_a_document_that_only_collides() -> None:
    one, other = colliding_documents(WORTH_WAITING + 10)
    sim = Simulation(num_slots=2000, exact=False)
    sim.cache.req_to_token_pool = type(sim.cache.req_to_token_pool)(8, 600, "cpu", False)
    sim.compute(sim.start(Prompt.of(doc(*one), text(1, 2))))
    for tokens, waits in ((other, False), (one, True)):
        req = sim.new(Prompt.of(doc(*tokens), text(3, 4))).req
        req.init_next_round_input(sim.cache)
        assert sim.cache.should_wait(req) == waits
