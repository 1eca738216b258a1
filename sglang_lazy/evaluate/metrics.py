"""How right an answer is: SQuAD's exact match and F1, and containment.

Normalisation, exact match and F1 follow SQuAD's evaluation (Rajpurkar et al. 2016): lower
case, no punctuation, no articles, single spaces; of several gold answers the best counts.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """SQuAD's normal form; of an answer that is nothing but an article, the article."""
    plain = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split()) or " ".join(plain.split())


def exact_match(answer: str, gold: str) -> float:
    """1 if both have the same normal form, else 0."""
    return float(normalize_answer(answer) == normalize_answer(gold))


def f1(answer: str, gold: str) -> float:
    """Harmonic mean of precision and recall over the words of the normal forms."""
    words, gold_words = normalize_answer(answer).split(), normalize_answer(gold).split()
    if not words or not gold_words:
        return float(words == gold_words)
    common = (Counter(words) & Counter(gold_words)).total()
    # 2pr / (p + r) with p = common / len(words) and r = common / len(gold_words)
    return 2 * common / (len(words) + len(gold_words))


def contains(answer: str, gold: str) -> float:
    """1 if the gold answer's words stand in the answer, in a row; else 0.

    By whole words: "27" is not in "1927". A gold answer without words is in none.
    """
    normal = normalize_answer(gold)
    return float(bool(normal) and f" {normal} " in f" {normalize_answer(answer)} ")


def best(metric: Callable[[str, str], float], answer: str, golds: Iterable[str]) -> float:
    """A metric's value for the gold answer that fits best."""
    return max(metric(answer, gold) for gold in golds)
