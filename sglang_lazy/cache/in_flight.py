"""Documents that are being computed, so that nobody computes them a second time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

WORTH_WAITING = 256
"""Tokens of documents in flight for which a request had better wait one pass.

Waiting costs at most the overhead of a pass; computing the tokens again costs the request,
and everybody behind it, their prefill.
"""


class InFlightDocuments:
    """What admitted requests compute: document keys, by request.

    Only requests that are admitted hold claims, and they wait for nobody. So no two requests
    can wait for each other.

    Attributes:
        latest: number of the latest claim; claims are numbered as requests are admitted.
    """

    def __init__(self) -> None:
        self.latest = 0
        self._claims: dict[Hashable, set[Hashable]] = {}
        # By document, the claimers and the numbers of their claims, oldest first.
        self._claimers: dict[Hashable, dict[Hashable, int]] = {}

    def worth_waiting_for(self, missing: Mapping[Hashable, int], limit: int) -> bool:
        """Whether enough of a request's missing tokens are being computed by others.

        Args:
            missing: missing tokens of each of its documents.
            limit: claims up to this number count. A request that counts only those made before
                it began to wait is overtaken by those behind it once, not for ever.
        """
        if not self._claimers:
            return False
        return sum(n for key, n in missing.items() if self._oldest(key) <= limit) >= WORTH_WAITING

    def claim(self, claimer: Hashable, missing: Iterable[Hashable]) -> None:
        """A request was admitted and will compute these."""
        self.release(claimer)
        keys = set(missing)
        if not keys:
            return
        self.latest += 1
        self._claims[claimer] = keys
        for key in keys:
            self._claimers.setdefault(key, {})[claimer] = self.latest

    def release(self, claimer: Hashable, keys: Iterable[Hashable] | None = None) -> None:
        """A request's documents have been handed to the tree, or given up.

        Args:
            keys: these of them; all by default.
        """
        claimed = self._claims.get(claimer)
        if claimed is None:
            return
        for key in claimed & set(claimed if keys is None else keys):
            claimed.remove(key)
            claimers = self._claimers[key]
            del claimers[claimer]
            if not claimers:
                del self._claimers[key]
        if not claimed:
            del self._claims[claimer]

    def _oldest(self, key: Hashable) -> float:
        """Number of the oldest claim on a document; infinite where there is none."""
        claimers = self._claimers.get(key)
        return next(iter(claimers.values())) if claimers else float("inf")
