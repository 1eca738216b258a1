"""Requests for documents, drawn by popularity: the traces of bench_eviction.py."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

PER_REQUEST = 5
PREAMBLE_TOKENS, QUESTION_TOKENS, ANSWER_TOKENS = 32, 32, 32


@dataclass(frozen=True)
class Population:
    """Documents of varied lengths: lognormal, cut to [shortest, longest].

    The median is such that the mean is near 1,000 tokens.
    """

    count: int = 2500
    shortest: int = 200
    longest: int = 4000
    seed: int = 0

    @cached_property
    def documents(self) -> list[array]:
        rng = np.random.default_rng(self.seed)
        lengths = np.exp(rng.normal(np.log(800), 0.7, self.count))
        lengths = np.clip(lengths, self.shortest, self.longest).astype(int)
        tokens = rng.integers(1, 100_000, size=int(lengths.sum()), dtype=np.int64)
        ends = np.cumsum(lengths)[:-1]
        return [array("q", part.tobytes()) for part in np.split(tokens, ends)]

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.documents))


@dataclass(frozen=True)
class Trace:
    """Requests, each of ``PER_REQUEST`` different documents in the order in which they are drawn.

    Attributes:
        alpha: the document of popularity rank r is drawn with weight ``r ** -alpha``. Ranks
            have nothing to do with lengths.
        num_requests: how many.
        num_warm: how many of them fill the cache and are not counted.
        shift_every: after so many requests, the documents of the first ranks lose them to
            others; 0 for never.
        shifted: how many documents that are.
    """

    alpha: float
    num_requests: int
    num_warm: int
    shift_every: int = 0
    shifted: int = 50
    seed: int = 1

    def requests(self, num_documents: int) -> list[list[int]]:
        """Indices of documents, by request."""
        rng = random.Random(self.seed)
        by_rank = rng.sample(range(num_documents), num_documents)
        weights = list(accumulate((rank + 1) ** -self.alpha for rank in range(num_documents)))
        requests = []
        for i in range(self.num_requests):
            if self.shift_every and i and i % self.shift_every == 0:
                others = rng.sample(range(self.shifted, num_documents), self.shifted)
                for rank, other in enumerate(others):
                    by_rank[rank], by_rank[other] = by_rank[other], by_rank[rank]
            chosen: dict[int, None] = {}  # ordered
            while len(chosen) < PER_REQUEST:
                (rank,) = rng.choices(range(num_documents), cum_weights=weights)
                chosen[by_rank[rank]] = None
            requests.append(list(chosen))
        return requests


@dataclass(frozen=True)
class Prompt:
    """Token ids, where the documents lie, and the tokens of the answer."""

    input_ids: array
    spans: tuple[tuple[int, int], ...]
    answer: array


def prompts(documents: Sequence[array], requests: Sequence[Sequence[int]]) -> Iterator[Prompt]:
    """A preamble that all share, the documents, a question and an answer that nobody shares."""
    rng = np.random.default_rng(2)

    def new(count: int) -> array:
        return array("q", rng.integers(1, 100_000, size=count, dtype=np.int64).tobytes())

    preamble = new(PREAMBLE_TOKENS)
    for request in requests:
        ids, spans = array("q", preamble), []
        for index in request:
            spans.append((len(ids), len(ids) + len(documents[index])))
            ids += documents[index]
        yield Prompt(ids + new(QUESTION_TOKENS), tuple(spans), new(ANSWER_TOKENS))


def best_fixed(documents: Sequence[array], requests: Sequence[Sequence[int]], budget: int) -> float:
    """Hit rate of the best set of documents that never changes, known from the trace itself.

    No cache can know it; one that adapts may still beat it where popularity shifts. Greedy by
    uses, the last one counted in part, so the rate is not below the best set's.
    """
    uses = Counter(index for request in requests for index in request)
    hits, left = 0.0, budget
    for index, count in uses.most_common():
        share = min(1.0, left / len(documents[index]))
        hits += share * count * len(documents[index])
        left -= int(share * len(documents[index]))
        if left <= 0:
            break
    total = sum(len(documents[i]) for request in requests for i in request)
    total += len(requests) * (PREAMBLE_TOKENS + QUESTION_TOKENS)
    return hits / total
