"""Metrics against values worked out by hand."""

import math

import pytest

from sglang_lazy.evaluate.divergence import RESOLUTION, lumped_kl
from sglang_lazy.evaluate.metrics import best, contains, exact_match, f1, normalize_answer


@pytest.mark.parametrize(
    "text, normal",
    [
        ("The  Lighthouse, of Varn!", "lighthouse of varn"),
        ("an apple; a pear", "apple pear"),
        ("theatre", "theatre"),  # no article at the start of a word
        ("U.S.A.", "usa"),
        ("The", "the"),  # nothing would be left
        ("...", ""),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


def test_exact_match() -> None:
    assert exact_match("the Eiffel tower.", "Eiffel Tower") == 1
    assert exact_match("Eiffel Tower in Paris", "Eiffel Tower") == 0


def test_f1_counts_repeated_words_once_each() -> None:
    # 2 of 4 words of the answer, 2 of 3 of the gold answer: p = 1/2, r = 2/3.
    assert f1("ida kolm ida built", "ida kolm engineer") == pytest.approx(4 / 7)
    assert f1("ida ida", "ida") == pytest.approx(2 / 3)
    assert f1("Nils Arvo", "Ida Kolm") == 0
    assert f1("...", "Ida") == 0
    assert f1("", "?") == 1


@pytest.mark.parametrize(
    "answer, gold, expected",
    [
        ("It was built by Ida Kolm.", "Ida Kolm", 1),
        ("It was built in 1927.", "27", 0),
        ("Ida and Kolm", "Ida Kolm", 0),
        ("in the year of the owl", "year of owl", 1),
        ("anything", "...", 0),
        ("", "Ida", 0),
    ],
)
def test_containment_is_by_words(answer: str, gold: str, expected: float) -> None:
    assert contains(answer, gold) == expected


def test_best_of_several_gold_answers() -> None:
    assert best(f1, "ida kolm", ["nils", "kolm", "ida kolm the engineer"]) == pytest.approx(0.8)


def logs(**probabilities: float) -> dict[int, float]:
    return {ord(token): math.log(p) for token, p in probabilities.items()}


def test_kl_over_common_tokens_and_the_rest() -> None:
    """a and b are told apart; c and d are in one list only and count as the rest."""
    full = logs(a=0.5, b=0.3, c=0.1)
    other = logs(a=0.2, b=0.4, d=0.2)
    expected = 0.5 * math.log(0.5 / 0.2) + 0.3 * math.log(0.3 / 0.4) + 0.2 * math.log(0.2 / 0.4)
    assert lumped_kl(full, other).kl == pytest.approx(expected)
    assert lumped_kl(full, other).rest == pytest.approx(0.2)


def test_lumping_never_exceeds_the_exact_divergence() -> None:
    p, q = [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]
    exact = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    for k in range(5):
        full = {i: math.log(p[i]) for i in range(k)}
        other = {i: math.log(q[i]) for i in range(4)}
        assert 0 <= lumped_kl(full, other).kl <= exact + 1e-12
    assert lumped_kl(dict(enumerate(map(math.log, p))), other).kl == pytest.approx(exact, abs=1e-6)


def test_kl_of_equal_distributions_is_zero() -> None:
    full = logs(a=0.6, b=0.4)
    assert lumped_kl(full, full).kl == 0
    assert lumped_kl(full, full).rest == RESOLUTION


def test_kl_is_finite_where_rounding_leaves_no_rest() -> None:
    full = logs(a=0.6, b=0.3)
    other = {ord("a"): math.log(0.7), ord("b"): math.log(0.3) + 1e-6}
    assert math.isfinite(lumped_kl(full, other).kl)
