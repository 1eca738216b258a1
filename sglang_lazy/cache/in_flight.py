"""Documents that are being computed, so that nobody computes them a second time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

WORTH_WAITING = 256
"""Tokens of documents in flight for which a request had better wait one pass.

Waiting costs at most the overhead of a pass; computing the tokens again costs the request,
and everybody behind it, their prefill.
"""


class InFlightDocuments:
    """What admitted requests compute: document keys, by request."""

    def __init__(self) -> None:
        self._claims: dict[str, set[Hashable]] = {}
        self._counts: Counter[Hashable] = Counter()

    def worth_waiting_for(self, missing: Mapping[Hashable, int]) -> bool:
        """Whether enough of a request's missing tokens are being computed by others.

        Args:
            missing: missing tokens of each of its documents.
        """
        if not self._counts:
            return False
        return sum(n for key, n in missing.items() if key in self._counts) >= WORTH_WAITING

    def claim(self, rid: str, missing: Mapping[Hashable, int]) -> None:
        """A request was admitted and will compute these."""
        self.release(rid)
        if missing:
            self._claims[rid] = set(missing)
            self._counts.update(missing.keys())

    def release(self, rid: str) -> None:
        """A request's documents have been handed to the tree, or given up."""
        for key in self._claims.pop(rid, ()):
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
