"""Statistics of a cache in use: what requests found, and what a summary says."""

from __future__ import annotations

import json
from array import array
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.observe.metrics import ChunkCacheMetrics
from sglang_lazy.observe.resident import document_digest
from sglang_lazy.observe.summary import summarize

from ..cache.pool import SEED, SINK, init_params
from ..cache.prompts import Prompt, doc, text
from ..cache.simulation import Simulation

LABELS = {"model_name": "m", "tp_rank": 0}
A, B = doc(11, 12, 13, 14), doc(21, 22)
QUESTION = text(31, 32)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def simulation(registry: CollectorRegistry) -> Simulation:
    kinds = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
    classes = {name: partial(kind, registry=registry) for name, kind in kinds.items()}
    metrics = ChunkCacheMetrics(LABELS, classes)
    return Simulation(cache=LazyPrefixCache(init_params(400), SINK, SEED, metrics))


def serve(simulation: Simulation, prompt: Prompt, chunk: int | None = None) -> None:
    run = simulation.prefill(simulation.start(prompt), chunk)
    simulation.finish(run)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    all_labels = {**{key: str(label) for key, label in LABELS.items()}, **labels}
    return registry.get_sample_value(f"sglang:chunk_cache_{name}", all_labels)


def by_result(registry: CollectorRegistry, name: str) -> list[float | None]:
    return [value(registry, name, result=result) for result in ("hit", "partial", "miss")]


def test_hits_partial_hits_and_misses(simulation: Simulation, registry: CollectorRegistry) -> None:
    serve(simulation, Prompt.of(text(1), A, QUESTION))
    longer = doc(*A[1], 15)  # begins like A
    serve(simulation, Prompt.of(text(2), B, A, longer, QUESTION))
    lookups = simulation.cache.statistics.lookups
    assert lookups.documents == {"hit": 1, "partial": 1, "miss": 2}
    assert lookups.tokens == {"hit": 4, "partial": 4, "miss": 4 + 2 + 1}
    assert by_result(registry, "documents_total") == [1, 1, 2]
    assert by_result(registry, "document_tokens_total") == [4, 4, 7]
    assert value(registry, "match_seconds_count") == 2


@pytest.mark.parametrize("chunk", [None, 1, 3])
@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
def test_what_is_resident(
    simulation: Simulation, registry: CollectorRegistry, mode: Any, chunk: int | None
) -> None:
    """Contexts and text do not count, nor does what two documents share, twice."""
    serve(simulation, Prompt.of(text(1, 2), A, B, doc(*A[1], 15), QUESTION, mode=mode), chunk)
    assert value(registry, "resident_documents") == 3
    assert value(registry, "resident_document_tokens") == 4 + 2 + 1


def test_half_a_document_is_not_a_document(
    simulation: Simulation, registry: CollectorRegistry
) -> None:
    run = simulation.start(Prompt.of(text(1), A, QUESTION))
    simulation.compute(run, 3)
    simulation.store(run)
    assert value(registry, "resident_documents") == 0
    assert value(registry, "resident_document_tokens") == 2
    simulation.finish(run, is_insert=False)


def test_eviction_and_flush(simulation: Simulation, registry: CollectorRegistry) -> None:
    serve(simulation, Prompt.of(text(1), A, B, QUESTION))
    simulation.evict(400)
    assert value(registry, "resident_documents") == 0
    assert value(registry, "resident_document_tokens") == 0
    assert value(registry, "evicted_documents_total") == 2
    assert value(registry, "evicted_document_tokens_total") == 6
    serve(simulation, Prompt.of(text(1), A, B, QUESTION))
    simulation.flush()
    assert value(registry, "resident_documents") == 0
    assert value(registry, "evicted_documents_total") == 2, "a flush is not an eviction"


def test_plain_prompts_count_for_nothing(
    simulation: Simulation, registry: CollectorRegistry
) -> None:
    serve(simulation, Prompt.of(text(1, 2, 3)))
    assert by_result(registry, "documents_total") == [0, 0, 0]
    assert value(registry, "match_seconds_count") == 0
    assert value(registry, "resident_document_tokens") == 0


def test_retracted_requests_count_once(simulation: Simulation) -> None:
    run = simulation.start(Prompt.of(text(1), A, QUESTION))
    simulation.prefill(run)
    simulation.retract(run)
    simulation.admit(run)
    assert simulation.cache.statistics.lookups.documents == {"hit": 0, "partial": 0, "miss": 1}
    simulation.finish(simulation.prefill(run))


def test_text_that_becomes_a_document(simulation: Simulation) -> None:
    """In mode `none` a document may find the KV of a plain prompt."""
    serve(simulation, Prompt.of(text(*A[1], 40)))
    assert len(simulation.cache.statistics.resident) == 0
    serve(simulation, Prompt.of(text(1), A, QUESTION))
    (document,) = simulation.cache.statistics.resident.hottest(5)
    assert (document.num_tokens, document.hits) == (4, 1)


def test_summary(simulation: Simulation) -> None:
    serve(simulation, Prompt.of(text(1), A, B, QUESTION))
    serve(simulation, Prompt.of(text(1), B, QUESTION))
    serve(simulation, Prompt((text(1), A, QUESTION), extra_key="tenant"))
    summary = summarize(simulation.cache, limit=2, dp_rank=3)
    tokens = summary["tokens"]
    assert tokens["capacity"] == 400 and tokens["documents"] == 4 + 2 + 4
    assert tokens["available"] + tokens["evictable"] + tokens["protected"] == 400
    assert (summary["dp_rank"], summary["eviction_policy"]) == (3, "lru")
    assert summary["resident_documents"] == 3
    assert summary["lookups"]["documents"] == {"hit": 1, "partial": 0, "miss": 3}
    hottest, other = summary["hottest"]
    assert hottest["hash"] == document_digest(array("q", B[1]))
    assert (hottest["tokens"], hottest["hits"], hottest["chunk_context"]) == (2, 1, "none")
    assert 0 <= hottest["idle_seconds"] <= hottest["age_seconds"] < 60
    assert hottest["namespace"] is None
    assert other["namespace"] is not None, "the last one used among those with no hits"
    assert "tenant" not in json.dumps(summary)


def test_tenants_after_new_weights(simulation: Simulation) -> None:
    """Each is still told by the same name, and who is none by none."""

    def tenants() -> dict[str, str | None]:
        serve(simulation, Prompt.of(text(1), A, QUESTION))
        serve(simulation, Prompt((text(1), B, QUESTION), extra_key="tenant"))
        hottest = summarize(simulation.cache, limit=9, dp_rank=0)["hottest"]
        return {document["hash"]: document["namespace"] for document in hottest}

    before = tenants()
    simulation.cache.expire_documents()
    simulation.cache.evict_documents()
    simulation.exact = False  # what was computed with other weights is no hit
    assert summarize(simulation.cache, limit=9, dp_rank=0)["resident_documents"] == 0
    assert tenants() == before
    assert set(before.values()) > {None}
