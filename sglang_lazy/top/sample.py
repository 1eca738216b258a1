"""What a server says of itself at one moment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sglang_lazy.http_client import Client, RequestError
from sglang_lazy.observe.lookups import RESULTS

PREFIX = "sglang:"
MATCH_SECONDS = "chunk_cache_match_seconds"
LOOKUPS = ("documents", "tokens")


@dataclass(frozen=True)
class Sample:
    """One reading.

    Attributes:
        seconds: when, ``time.monotonic()``.
        cache: the body of ``GET /chunk_cache``.
        metrics: SGLang's and our metrics by name without prefix, summed over schedulers;
            empty where the server exports none.
        match_buckets: tries to match that took at most so many seconds, cumulative.
        model: the model's name, where metrics tell it.
    """

    seconds: float
    cache: Mapping[str, Any]
    metrics: Mapping[str, float]
    match_buckets: Mapping[float, float]
    model: str

    @property
    def schedulers(self) -> list[dict[str, Any]]:
        schedulers: list[dict[str, Any]] = self.cache["schedulers"]
        return schedulers

    def lookups(self, kind: str) -> dict[str, int]:
        """Documents or tokens by result, since the server started."""
        return {
            result: sum(scheduler["lookups"][kind][result] for scheduler in self.schedulers)
            for result in RESULTS
        }

    def evicted(self, kind: str) -> int:
        return sum(scheduler["evicted"][kind] for scheduler in self.schedulers)

    def hottest(self, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Ranks and documents, most hits first."""
        documents = [(s["dp_rank"], d) for s in self.schedulers for d in s["hottest"]]
        return sorted(documents, key=lambda each: -each[1]["hits"])[:limit]


def take_sample(client: Client, documents: int) -> Sample:
    """Ask a server.

    Raises:
        RequestError: it has no chunk cache, or may not tell us.
        ServerUnreachable: it does not answer.
    """
    cache = client.get("/chunk_cache", documents=documents).json()
    try:
        text = client.get("/metrics").text
    except RequestError:  # no --enable-metrics
        text = ""
    return Sample(time.monotonic(), cache, *parse_metrics(text))


def parse_metrics(text: str) -> tuple[dict[str, float], dict[float, float], str]:
    """Sums by metric, cumulative buckets of the time to match, and the model's name."""
    from prometheus_client.parser import text_string_to_metric_families

    sums: dict[str, float] = {}
    buckets: dict[float, float] = {}
    model = ""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix(PREFIX)
            if name == f"{MATCH_SECONDS}_bucket":
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0) + sample.value
            elif name == sample.name or name.endswith("_bucket"):
                continue
            else:
                sums[name] = sums.get(name, 0) + sample.value
            model = model or sample.labels.get("model_name", "")
    return sums, buckets, model


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Upper bound of the bucket in which the quantile lies; None for no observations."""
    bounds: Iterable[float] = sorted(buckets)
    total = max(buckets.values(), default=0)
    if not total:
        return None
    return next(bound for bound in bounds if buckets[bound] >= share * total)
