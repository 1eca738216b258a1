"""Divergence of a mode's next-token distribution from that of full attention.

A server returns log-probabilities of some tokens, not of the whole vocabulary. So both
distributions are seen through the k likeliest tokens of full attention, with all other
tokens lumped into one:

    KL = sum_i p_i log(p_i / q_i)  +  p_rest log(p_rest / q_rest)

Lumping can only lower a KL divergence (log-sum inequality). What it hides is the reordering
within the rest, which has the mass p_rest; that is reported beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

RESOLUTION = 1e-7
"""Smallest mass of the rest: what float32 log-probabilities leave of 1 is noise below it."""


def rest_mass(logprobs: Sequence[float]) -> float:
    """What the given log-probabilities (nats) leave of 1."""
    return max(1.0 - math.fsum(map(math.exp, logprobs)), RESOLUTION)


def lumped_kl(full: Sequence[float], other: Sequence[float]) -> float:
    """KL(full || other) in nats.

    Args:
        full: log-probabilities of the k likeliest tokens under full attention.
        other: of the same tokens, in the same order, in another mode.

    Raises:
        ValueError: the two differ in length.
    """
    terms = [math.exp(p) * (p - q) for p, q in zip(full, other, strict=True)]
    p_rest, q_rest = rest_mass(full), rest_mass(other)
    return max(math.fsum([*terms, p_rest * math.log(p_rest / q_rest)]), 0.0)
