"""From single results to figures: means with bootstrap intervals, per mode and per kind.

An interval is the percentile bootstrap over questions (Efron 1979), 95%. A difference to full
attention is bootstrapped over the questions' own differences, so what is hard in both modes
cancels out; it is narrower than the two intervals suggest. Where every question gives the same
value the interval has no width: with n questions and no failure among them, a rate of failures
of up to 3/n remains plausible all the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sglang_lazy.evaluate.dataset import Example, by_kind
from sglang_lazy.evaluate.measure import Measurement
from sglang_lazy.evaluate.modes import FULL, Mode

RESAMPLES = 10_000
BATCH_ELEMENTS = 4_000_000
"""Values that are resampled at once, to bound memory."""

Metric = Callable[[Measurement], float | None]


def _order_change(m: Measurement) -> float | None:
    return None if m.reordered_contains is None else m.reordered_contains - m.contains


METRICS: Mapping[str, Metric] = {
    "contains": operator.attrgetter("contains"),
    "exact_match": operator.attrgetter("exact_match"),
    "f1": operator.attrgetter("f1"),
    "nll": lambda m: m.nll / m.answer_tokens,
    "kl": operator.attrgetter("kl"),
    "rest": operator.attrgetter("rest"),
    "agreement": operator.attrgetter("agrees"),
    "order_change": _order_change,
    "prompt_tokens": lambda m: m.answer.prompt_tokens,
}
"""Value of one question, or None where it has none; means of them are reported."""

COMPARED = ("contains", "exact_match", "f1", "nll", "agreement")
"""Metrics whose difference to full attention is reported."""


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` questions, with its 95% interval; None for fewer than two."""

    value: float
    interval: tuple[float, float] | None
    n: int


@dataclass(frozen=True)
class Reuse:
    """Sums over prompts: of tokens, and of those that came from the cache."""

    prompt_tokens: int
    cached_tokens: int
    document_tokens: int
    cached_document_tokens: int

    @property
    def fraction(self) -> float:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True)
class Figures:
    """One mode, over all questions or those of one kind.

    Attributes:
        n: questions measured.
        failures: questions that failed.
        metrics: by name, see ``METRICS``; those that no question has are left out.
        difference: mode less full attention, over questions measured in both.
        reuse: of the prompts as given; ``reordered`` of those in another order.
    """

    n: int
    failures: int
    metrics: dict[str, Estimate]
    difference: dict[str, Estimate]
    reuse: Reuse
    reordered: Reuse


@dataclass(frozen=True)
class Summary:
    """All modes, overall and by kind; ``errors`` holds why questions failed, most often first."""

    modes: dict[str, Figures]
    kinds: dict[str, dict[str, Figures]]
    errors: dict[str, int]


def estimate(values: Sequence[float], seed: int) -> Estimate:
    """Mean and its interval; the same for the same values and seed."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return Estimate(float(data.mean()), None, len(data))
    interval = stats.bootstrap(
        (data,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(BATCH_ELEMENTS // len(data), 1),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(float(data.mean()), (float(interval.low), float(interval.high)), len(data))


def summarize(
    examples: Sequence[Example],
    modes: Sequence[Mode],
    measured: Mapping[tuple[str, str], Measurement],
    failed: Mapping[tuple[str, str], str],
    seed: int = 0,
) -> Summary:
    """Figures of the given examples and modes; other results are ignored."""

    def figures(group: Sequence[Example], mode: Mode) -> Figures:
        return _figures([example.key for example in group], mode, measured, failed, seed)

    wanted = {(example.key, mode.name) for example in examples for mode in modes}
    errors: dict[str, int] = {}
    for key in wanted & failed.keys():
        errors[failed[key]] = errors.get(failed[key], 0) + 1
    return Summary(
        modes={mode.name: figures(examples, mode) for mode in modes},
        kinds={
            kind: {mode.name: figures(group, mode) for mode in modes}
            for kind, group in by_kind(examples)
        },
        errors=dict(sorted(errors.items(), key=lambda item: (-item[1], item[0]))),
    )


def _figures(
    keys: Sequence[str],
    mode: Mode,
    measured: Mapping[tuple[str, str], Measurement],
    failed: Mapping[tuple[str, str], str],
    seed: int,
) -> Figures:
    found = [m for key in keys if (m := measured.get((key, mode.name)))]
    metrics = {
        name: estimate(values, seed)
        for name, metric in METRICS.items()
        if (values := [v for m in found if (v := metric(m)) is not None])
    }
    difference = {}
    if mode.name != FULL:
        pairs = [
            (m, full)
            for key in keys
            if (m := measured.get((key, mode.name))) and (full := measured.get((key, FULL)))
        ]
        for name in COMPARED:
            both = [(METRICS[name](m), METRICS[name](full)) for m, full in pairs]
            if values := [a - b for a, b in both if a is not None and b is not None]:
                difference[name] = estimate(values, seed)
    return Figures(
        n=len(found),
        failures=sum((key, mode.name) in failed for key in keys),
        metrics=metrics,
        difference=difference,
        reuse=_reuse(m.answer for m in found),
        reordered=_reuse(m.reordered for m in found),
    )


def _reuse(answers: Iterable[object]) -> Reuse:
    kept = [a for a in answers if a is not None]
    names = ("prompt_tokens", "cached_tokens", "document_tokens", "cached_document_tokens")
    return Reuse(*(sum(getattr(a, name) for a in kept) for name in names))
