"""Warming a cache and watching it, with one real server."""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from sglang_lazy.observe.resident import document_digest
from sglang_lazy.warm.__main__ import main as warm

from ..engines import Server
from .prompts import Prompt, Writer, sentences
from .subject import Subject, assert_reuse

pytestmark = pytest.mark.server

DASHBOARD = Path(__file__).parents[2] / "examples" / "grafana" / "chunk-cache.json"
PREAMBLE = "Answer from these notes."
NUM_DOCUMENTS = 40  # several requests


@pytest.fixture
def subject(make_subject: Callable[..., Subject]) -> Subject:
    return make_subject("sink", enable_metrics=True)


@pytest.fixture
def server(subject: Subject) -> Server:
    return subject.server


@pytest.fixture
def texts() -> list[str]:
    return [f"\n\n{i}. " + "".join(islice(sentences(i), 3)) for i in range(NUM_DOCUMENTS)]


@pytest.fixture
def corpus(tmp_path: Path, texts: list[str]) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture
def run_warm(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Runs the tool; returns its exit status, its counts, and what it said besides."""

    def run(*arguments: object) -> tuple[int, dict[str, Any], str]:
        status = warm(["--url", server.url, "--json", *map(str, arguments)])
        said = capsys.readouterr()
        return status, json.loads(said.out), said.err

    return run


def summary(server: Server, documents: int = 100) -> dict[str, Any]:
    response = requests.get(f"{server.url}/chunk_cache?documents={documents}", timeout=60)
    response.raise_for_status()
    (scheduler,) = response.json()["schedulers"]
    return scheduler


def metrics(server: Server) -> dict[str, float]:
    """Ours, by name and result."""
    return dict(_metrics(requests.get(server.url + "/metrics", timeout=60).text))


def _metrics(text: str) -> Iterator[tuple[str, float]]:
    prefix = "sglang:chunk_cache_"
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(prefix):
                name = sample.name.removeprefix(prefix)
                yield " ".join(filter(None, (name, sample.labels.get("result")))), sample.value


def test_later_prompts_hit_what_was_warmed(
    subject: Subject, writer: Writer, corpus: Path, texts: list[str], run_warm: Callable
) -> None:
    ids = [writer.encode(text) for text in texts]
    num_tokens = sum(map(len, ids))
    status, report, _ = run_warm(corpus)
    assert status == 0
    assert report["documents"] == NUM_DOCUMENTS and report["cached_documents"] == 0
    # Some begin alike, and may find each other's first tokens.
    assert report["computed_tokens"] + report["cached_tokens"] == num_tokens
    assert report["computed_tokens"] > 0.9 * num_tokens

    prompt = Prompt.of(writer.story(1, 20), (ids[30],), (ids[2],), writer.story(2, 6))
    completion = subject.ask(prompt)
    assert_reuse(completion, len(ids[30]) + len(ids[2]), documents=2, hits=2)

    status, report, _ = run_warm(corpus)
    assert status == 0
    assert report["cached_documents"] == report["documents"] == NUM_DOCUMENTS
    assert (report["computed_tokens"], report["cached_tokens"]) == (0, num_tokens)

    by_name = {document["hash"]: document for document in summary(subject.server)["hottest"]}
    assert len(by_name) == NUM_DOCUMENTS
    hits = [by_name[document_digest(array("q", each))]["hits"] for each in ids]
    assert [hits[30], hits[2], hits[0]] == [2, 2, 1]


def test_preamble(
    subject: Subject, writer: Writer, corpus: Path, texts: list[str], run_warm: Callable
) -> None:
    options = ["--chunk-context", "preamble", "--preamble", PREAMBLE]
    status, _, _ = run_warm(corpus, *options)
    assert status == 0
    preamble, document = writer.encode(PREAMBLE), writer.encode(texts[7])
    prompt = Prompt.of(preamble, (document,), writer.story(2, 6))
    reused = len(preamble) + len(document)
    assert_reuse(subject.with_mode("preamble").ask(prompt), reused, documents=1, hits=1)
    assert_reuse(subject.ask(prompt), len(preamble), documents=1, hits=0)


def test_what_does_not_fit_is_left_out(
    subject: Subject, writer: Writer, corpus: Path, texts: list[str], run_warm: Callable
) -> None:
    status, report, said = run_warm(corpus, "--fill", "0.05", "--concurrency", "2")
    assert status == 1
    assert 0 < report["documents"] < NUM_DOCUMENTS
    assert report["documents"] + report["left_out"] == NUM_DOCUMENTS
    assert summary(subject.server)["tokens"]["documents"] <= 0.05 * 20000
    assert "The cache is full" in said
    first = writer.encode(texts[0])
    completion = subject.ask(Prompt.of((first,), writer.story(2, 6)))
    assert completion.chunk_cache["hits"] == 1


def test_one_bad_document_fails_alone(
    corpus: Path, texts: list[str], run_warm: Callable, server: Server
) -> None:
    with corpus.open("a") as lines:
        lines.write(json.dumps("far too long " * 4000) + "\n")
        lines.write(json.dumps("half a character \ud800") + "\n")
        lines.write(json.dumps({"title": "no text"}) + "\n")
        lines.write(json.dumps(texts[0]) + "\n")
    status, report, said = run_warm(corpus)
    assert status == 1
    assert (report["documents"], report["duplicates"]) == (NUM_DOCUMENTS, 1)
    names = {name.rsplit(":", 1)[1] for name, _ in report["failures"]}
    assert names == {str(NUM_DOCUMENTS + i) for i in (1, 2, 3)}
    assert "docs.jsonl:43" in said
    assert summary(server)["resident_documents"] == NUM_DOCUMENTS


def test_metrics_and_summary_agree(
    subject: Subject, writer: Writer, server: Server, corpus: Path, run_warm: Callable
) -> None:
    before = metrics(server)
    run_warm(corpus)
    new, known = writer.story(3, 50), writer.story(4, 60)
    subject.ask(Prompt.of((known[:40],), writer.story(2, 6)))
    subject.ask(Prompt.of((known[:40],), (known,), (new,), writer.story(2, 6)))
    after, told = metrics(server), summary(server)
    grown = {name: after[name] - before[name] for name in after}
    assert grown["documents_total hit"] == 1
    assert grown["documents_total partial"] >= 1
    tokens = ("hit", "partial", "miss")
    assert [after[f"document_tokens_total {r}"] for r in tokens] == [
        told["lookups"]["tokens"][r] for r in tokens
    ]
    assert grown["document_tokens_total hit"] == 40
    assert after["resident_documents"] == told["resident_documents"] == NUM_DOCUMENTS + 3
    assert after["resident_document_tokens"] == told["tokens"]["documents"]
    assert grown["match_seconds_count"] >= 2 + NUM_DOCUMENTS / 16
    assert told["tokens"]["evictable"] + told["tokens"]["available"] == 20000

    server.flush_cache()
    assert metrics(server)["resident_document_tokens"] == 0
    assert summary(server)["resident_documents"] == 0


def test_dashboard_asks_for_metrics_that_exist(server: Server, subject: Subject) -> None:
    subject.ask(Prompt.of(([5, 6, 7],), [8, 9]))
    text = requests.get(server.url + "/metrics", timeout=60).text
    samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
    exported = {sample.name: set(sample.labels) for sample in samples}
    board = json.loads(DASHBOARD.read_text())
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert {"datasource", "model_name"} <= variables
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked = {name for expression in expressions for name in _names(expression)}
    assert len(asked) > 10
    for name in asked:
        assert {"model_name"} <= exported[name], name
    ours = {name for name in exported if name.startswith("sglang:chunk_cache_")}
    scheduler_labels = exported["sglang:num_running_reqs"]
    assert all(scheduler_labels <= exported[name] for name in ours)
    assert {name for name in ours if not name.endswith(("_sum", "_count"))} <= asked


def _names(expression: str) -> set[str]:
    words = expression.replace("{", " ").replace("(", " ").split()
    return {word for word in words if word.startswith("sglang:")}


def test_bad_requests(server: Server) -> None:
    for documents in ("101", "-1", "x"):
        response = requests.get(f"{server.url}/chunk_cache?documents={documents}", timeout=60)
        assert response.status_code == 400 and "0 to 100" in response.text


def test_top(subject: Subject, writer: Writer, server: Server) -> None:
    document = writer.story(5, 30)
    prompt = Prompt.of((document,), writer.story(2, 6))
    for _ in range(2):
        subject.ask(prompt)
    command = [sys.executable, "-m", "sglang_lazy.top", "--once", "--url", server.url]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert document_digest(array("q", document))[:16] in result.stdout
    assert "1 documents; 20,000 tokens of KV" in result.stdout
    assert "time to match: mean" in result.stdout
