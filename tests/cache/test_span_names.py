"""Spans that decoding requests share by name: equal names, equal contents.

A step may be planned before what the pass before it computed has been stored.
"""

import random

import pytest

from sglang_lazy.attention.batch import _decode_spans_of
from sglang_lazy.cache.request_state import admitted_state

from .prompts import Prompt, doc, text
from .simulation import Simulation

SEEDS = 300


def some_prompt(rng: random.Random) -> Prompt:
    def document() -> tuple[bool, tuple[int, ...]]:
        return doc(*rng.choices((5, 5, 6), k=rng.randint(1, 5)))  # many begin alike

    documents = [document() for _ in range(rng.randint(1, 3))]
    return Prompt.of(
        text(1, 2),
        *documents,
        text(rng.randint(30, 40)),
        mode=rng.choice(("none", "sink")),
        link_tokens=rng.choice((0, 0, 1, 2)),
    )


@pytest.mark.parametrize("stores_one", [False, True])
def test_equal_names_mean_equal_contents(stores_one: bool) -> None:
    num_shared = 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        simulation = Simulation(400)
        for _ in range(rng.randint(1, 3)):
            simulation.serve(some_prompt(rng))
        runs = [simulation.start(some_prompt(rng)) for _ in range(2)]
        for run in runs:
            simulation.compute(run)
        if stores_one:
            simulation.store(runs[0])
        contents: dict[tuple[int, int], list[object]] = {}
        for run in runs:
            state = admitted_state(run.req)
            assert state is not None
            spans = _decode_spans_of(state, run.req.cache_protected_len)
            row = simulation.row(run)
            # The last span is a request's own, and private whatever it is called.
            for start, length, key in zip(
                spans.start[:-1], spans.length[:-1], spans.key[:-1], strict=True
            ):
                if key < 0:
                    continue
                held = [simulation.written[slot] for slot in row[start : start + length].tolist()]
                known = contents.setdefault((int(key), int(length)), held)
                assert known == held, f"seed {seed}: two contents under one name"
                num_shared += known is not held
    assert num_shared > SEEDS / 10, "nothing was shared: the test says nothing"
