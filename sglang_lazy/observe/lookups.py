"""How often documents were found: counts of what admitted requests asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

RESULTS = ("hit", "partial", "miss")
"""A document was in the cache whole, its head alone, or not at all."""


def _zeros() -> dict[str, int]:
    return dict.fromkeys(RESULTS, 0)


@dataclass
class LookupCounts:
    """Counts of documents and their tokens by result.

    Attributes:
        documents: documents by result.
        tokens: tokens of documents: taken from the cache as part of a ``hit``, taken from
            it as the head of a ``partial``, or computed (``miss``). They sum to all tokens.
    """

    documents: dict[str, int] = field(default_factory=_zeros)
    tokens: dict[str, int] = field(default_factory=_zeros)

    @classmethod
    def of(cls, documents: Iterable[tuple[int, int]]) -> LookupCounts:
        """Of one prompt.

        Args:
            documents: cached tokens and all tokens of each document.
        """
        hits = partials = misses = hit_tokens = partial_tokens = missing_tokens = 0
        for cached, length in documents:
            missing_tokens += length - cached
            if cached == length:
                hits += 1
                hit_tokens += cached
            elif cached:
                partials += 1
                partial_tokens += cached
            else:
                misses += 1
        return cls(
            documents={"hit": hits, "partial": partials, "miss": misses},
            tokens={"hit": hit_tokens, "partial": partial_tokens, "miss": missing_tokens},
        )

    def add(self, other: LookupCounts) -> None:
        _add(self.documents, other.documents)
        _add(self.tokens, other.tokens)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for result, count in more.items():
        total[result] += count
