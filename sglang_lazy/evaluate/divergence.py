"""Divergence of a mode's next-token distribution from that of full attention.

A server returns log-probabilities of the k likeliest tokens, not of the whole vocabulary. So
the two distributions p (full attention) and q (the mode) are compared on the tokens that are
among the k likeliest of both, with all others lumped into one:

    KL = sum_i p_i log(p_i / q_i)  +  p_rest log(p_rest / q_rest)

Lumping can only lower a KL divergence (log-sum inequality), so this is a lower bound. It is
close where p_rest is small; p_rest is reported beside it.

(SGLang can also return the log-probabilities of given tokens, ``token_ids_logprob``. In 0.5.17
such a request ends the server when it shares a batch with one that asks for none:
sgl-project/sglang#34719.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

RESOLUTION = 1e-7
"""Smallest mass of the rest: what float32 log-probabilities leave of 1 is noise below it."""


class Divergence(NamedTuple):
    """KL(p || q) in nats, at least, and the mass of p that was lumped."""

    kl: float
    rest: float


def lumped_kl(full: Mapping[int, float], other: Mapping[int, float]) -> Divergence:
    """Divergence of ``other`` from ``full``.

    Args:
        full: log-probabilities (nats) of the likeliest tokens under full attention, by token.
        other: the same in another mode.
    """
    both = full.keys() & other.keys()
    terms = [math.exp(full[t]) * (full[t] - other[t]) for t in both]
    p_rest, q_rest = (_rest(logprobs[t] for t in both) for logprobs in (full, other))
    kl = math.fsum([*terms, p_rest * math.log(p_rest / q_rest)])
    return Divergence(max(kl, 0.0), p_rest)


def _rest(logprobs: Iterable[float]) -> float:
    return max(1.0 - math.fsum(map(math.exp, logprobs)), RESOLUTION)
