"""Figures from results: means, intervals, differences, kinds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sglang_lazy.evaluate.measure import Answer, Measurement
from sglang_lazy.evaluate.modes import parse_mode
from sglang_lazy.evaluate.summary import estimate, summarize

from .scripted import examples

MODES = [parse_mode("full"), parse_mode("sink")]


def measurement(contains: float, **fields: float) -> Measurement:
    answer = Answer("x", 100, 20, 60, 10)
    plain = Measurement(answer, contains, 0.0, 0.5, 6.0, 3, kl=0.25, rest=0.01)
    return replace(plain, **fields)  # type: ignore[arg-type]


def test_bootstrap_is_seeded() -> None:
    values = np.random.default_rng(0).normal(size=50).tolist()
    assert estimate(values, 1) == estimate(values, 1)
    assert estimate(values, 1) != estimate(values, 2)
    assert estimate(values, 1).value == estimate(values, 2).value == pytest.approx(np.mean(values))


def test_interval_of_a_rate() -> None:
    """40 of 100: the normal approximation gives 0.4 plus and minus 1.96 * 0.049."""
    result = estimate([1.0] * 40 + [0.0] * 60, 0)
    assert result.interval == pytest.approx((0.304, 0.496), abs=0.011)
    assert result.n == 100


def test_degenerate_intervals() -> None:
    assert estimate([0.5], 0).interval is None
    assert estimate([1.0] * 5, 0).interval == (1, 1)


def outcomes(
    full: Sequence[float], sink: Sequence[float], kinds: Sequence[str] = ("",)
) -> tuple[list, dict]:
    questions = examples(len(full), kinds)
    measured = {}
    for question, a, b in zip(questions, full, sink, strict=True):
        measured[question.key, "full"] = measurement(a, kl=0.0)
        measured[question.key, "sink"] = measurement(b)
    return questions, measured


def test_difference_is_paired() -> None:
    """Equal answers differ by nothing, however uncertain their rate is."""
    right = [1.0, 0.0] * 20
    questions, measured = outcomes(right, right)
    figures = summarize(questions, MODES, measured, {}).modes["sink"]
    assert figures.difference["contains"].interval == (0, 0)
    low, high = figures.metrics["contains"].interval or (0, 0)
    assert high - low > 0.2


def test_difference_is_over_questions_measured_in_both_modes() -> None:
    questions, measured = outcomes([1, 1, 1, 0], [1, 0, 0, 1])
    del measured[questions[3].key, "full"]
    failed = {(questions[3].key, "full"): "reason"}
    summary = summarize(questions, MODES, measured, failed)
    assert summary.modes["full"].n == 3
    assert summary.modes["full"].failures == 1
    assert summary.modes["sink"].metrics["contains"].value == 0.5
    assert summary.modes["sink"].difference["contains"].value == pytest.approx(-2 / 3)
    assert summary.modes["sink"].difference["contains"].n == 3
    assert summary.errors == {"reason": 1}


def test_metrics() -> None:
    questions, measured = outcomes([1, 1], [1, 0])
    key = questions[1].key, "sink"
    other = Answer("y", 100, 70, 60, 60)
    measured[key] = replace(measured[key], reordered=other, agrees=0.0, reordered_contains=1.0)
    figures = summarize(questions, MODES, measured, {}).modes["sink"]
    assert figures.metrics["nll"].value == 2  # per token
    assert figures.metrics["kl"].value == 0.25
    assert figures.metrics["order_change"].value == 1
    assert figures.metrics["agreement"].n == 1
    assert figures.metrics["prompt_tokens"].value == 100
    assert figures.reuse.fraction == pytest.approx(0.2)
    assert figures.reordered.fraction == pytest.approx(0.7)
    assert figures.reordered.cached_document_tokens == 60


def test_kinds() -> None:
    questions, measured = outcomes([1, 1, 1, 1], [1, 0, 1, 1], ["fact", "unanswerable"])
    summary = summarize(questions, MODES, measured, {})
    assert list(summary.kinds) == ["fact", "unanswerable"]
    assert summary.kinds["fact"]["sink"].metrics["contains"].value == 1
    assert summary.kinds["unanswerable"]["sink"].difference["contains"].value == -0.5


def test_results_of_other_questions_and_modes_are_ignored() -> None:
    questions, measured = outcomes([1, 1, 1], [0, 0, 0])
    failed = {(questions[2].key, "full"): "x", (questions[0].key, "none"): "y"}
    summary = summarize(questions[:2], MODES[:1], measured, failed)
    assert list(summary.modes) == ["full"]
    assert (summary.modes["full"].n, summary.errors) == (2, {})


def test_nothing_measured() -> None:
    figures = summarize(examples(2), MODES, {}, {}).modes["sink"]
    assert (figures.n, figures.metrics, figures.reuse.fraction) == (0, {}, 0)
