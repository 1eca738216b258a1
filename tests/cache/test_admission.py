"""SGLang admits a request by what is locked and what is left; both must be exact.

A request that is short of one token on an idle server is never admitted, and blocks the
queue for good.
"""

import pytest

from .prompts import Prompt, doc, text
from .simulation import Simulation

POOL = 100
DOCUMENT = doc(*range(50, 90))


@pytest.mark.parametrize("logprob_start", [None, 5, 45])
@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
def test_locks_what_it_uses(mode: str, logprob_start: int | None) -> None:
    """Tokens that are found but may not be used, since their logits are wanted, stay free."""
    prompt = Prompt.of(text(0, 8), DOCUMENT, text(*range(20, 30)), mode=mode)  # 0: the sink
    sim = Simulation(POOL)
    sim.serve(prompt)
    req = sim.new(prompt, logprob_start).req
    req.init_next_round_input(sim.cache)
    sim.cache.inc_lock_ref(req.last_node)
    expected = len(prompt.ids) - 1 if logprob_start is None else logprob_start
    assert len(req.prefix_indices) == expected
    if mode == "none" or logprob_start != 5:
        assert sim.cache.protected_size() == expected
    sim.cache.dec_lock_ref(req.last_node)


def test_answer_leaves_room_for_the_sink() -> None:
    prompt = Prompt.of(text(7, 8), DOCUMENT, text(*range(20, 30)), mode="sink")
    sim = Simulation(POOL)
    req = sim.new(prompt).req
    fits_without_sink = POOL - len(prompt.ids) - 2
    req.sampling_params.max_new_tokens = fits_without_sink
    req.init_next_round_input(sim.cache)
    assert req.sampling_params.max_new_tokens == fits_without_sink - 1


def test_answer_without_sink_is_as_asked() -> None:
    prompt = Prompt.of(text(0, 8), DOCUMENT, text(*range(20, 30)), mode="sink")
    sim = Simulation(POOL)
    req = sim.new(prompt).req
    req.sampling_params.max_new_tokens = fits = POOL - len(prompt.ids) - 2
    req.init_next_round_input(sim.cache)
    assert req.sampling_params.max_new_tokens == fits
