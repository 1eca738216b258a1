"""Prometheus metrics of the chunk cache, on SGLang's own ``/metrics``.

They exist where SGLang's scheduler metrics do (``--enable-metrics``), in the same process
and with the same labels, so that both can be joined in a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_lazy import compat
from sglang_lazy.observe.lookups import LookupCounts
from sglang_lazy.observe.resident import ResidentDocuments

MATCH_SECONDS_BUCKETS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
)  # fmt: skip

_collector: Any = None


def remember_collector(collector: Any) -> None:
    """SGLang has made its scheduler's metrics; ours take their labels. None: no metrics."""
    global _collector
    _collector = collector


def create_metrics() -> ChunkCacheMetrics | None:
    """Metrics for this scheduler; None where SGLang exports none from it."""
    if _collector is None:
        return None
    return ChunkCacheMetrics(_collector.labels, compat.metric_classes(_collector))


class ChunkCacheMetrics:
    """The metrics, with their labels filled in.

    Args:
        labels: SGLang's labels of this scheduler.
        classes: makers of a ``counter``, a ``gauge`` and a ``histogram``, with the arguments
            of ``prometheus_client``'s classes.
    """

    def __init__(self, labels: Mapping[str, Any], classes: Mapping[str, Any]) -> None:
        names = list(labels)

        def by_result(name: str, documentation: str) -> dict[str, Any]:
            metric = classes["counter"](name, documentation, [*names, "result"])
            results = LookupCounts().documents
            return {result: metric.labels(**labels, result=result) for result in results}

        def counter(name: str, documentation: str) -> Any:
            return classes["counter"](name, documentation, names).labels(**labels)

        def gauge(name: str, documentation: str) -> Any:
            metric = classes["gauge"](name, documentation, names, multiprocess_mode="mostrecent")
            return metric.labels(**labels)

        self._documents = by_result(
            "sglang:chunk_cache_documents_total",
            "Documents of admitted requests: whole in the cache, their head alone, or missing.",
        )
        self._tokens = by_result(
            "sglang:chunk_cache_document_tokens_total",
            "Tokens of these documents: cached in a hit, cached in a partial, or computed (miss).",
        )
        self._resident_documents = gauge(
            "sglang:chunk_cache_resident_documents",
            "Documents that are in the cache to their last token.",
        )
        self._resident_tokens = gauge(
            "sglang:chunk_cache_resident_document_tokens",
            "Tokens in the cache that belong to documents.",
        )
        self._evicted_documents = counter(
            "sglang:chunk_cache_evicted_documents_total",
            "Documents that eviction has cut or removed.",
        )
        self._evicted_tokens = counter(
            "sglang:chunk_cache_evicted_document_tokens_total",
            "Tokens of documents that eviction has removed.",
        )
        self._match_seconds = classes["histogram"](
            "sglang:chunk_cache_match_seconds",
            "Time to find what is cached of a prompt with documents, for each try to admit it.",
            names,
            buckets=MATCH_SECONDS_BUCKETS,
        ).labels(**labels)
        self._published = (0, 0)
        self._published_evictions = (0, 0)

    def count(self, counts: LookupCounts) -> None:
        """A request was admitted."""
        for counters, numbers in (
            (self._documents, counts.documents),
            (self._tokens, counts.tokens),
        ):
            for result, number in numbers.items():
                if number:
                    counters[result].inc(number)

    def observe_match(self, seconds: float) -> None:
        self._match_seconds.observe(seconds)

    def publish(self, resident: ResidentDocuments) -> None:
        """Bring the figures of what the tree holds up to date."""
        held = len(resident), resident.num_tokens
        if held != self._published:
            self._resident_documents.set(held[0])
            self._resident_tokens.set(held[1])
            self._published = held
        evicted = resident.evicted_documents, resident.evicted_tokens
        if evicted != self._published_evictions:
            self._evicted_documents.inc(evicted[0] - self._published_evictions[0])
            self._evicted_tokens.inc(evicted[1] - self._published_evictions[1])
            self._published_evictions = evicted
