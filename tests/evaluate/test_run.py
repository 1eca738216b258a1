"""Runs: failures, resumption, and files that must not be mixed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sglang_lazy.evaluate.dataset import Example
from sglang_lazy.evaluate.modes import parse_mode
from sglang_lazy.evaluate.results import ResultsError, ResultsFile
from sglang_lazy.evaluate.run import run
from sglang_lazy.http_client import ServerUnreachable

from .scripted import ScriptedClient, examiner, examples, results_path, text_of

SETTINGS = {"model": "m", "stop": ("x",)}


def run_all(
    client: ScriptedClient,
    folder: Path,
    questions: Sequence[Example],
    *modes: str,
    concurrency: int = 1,
) -> ResultsFile:
    with ResultsFile(results_path(folder), SETTINGS) as results:
        parsed = [parse_mode(name) for name in modes]
        subject = examiner(client)
        asyncio.run(run(subject, questions, parsed, results, concurrency, lambda *_: None))
    return results


def test_full_attention_is_measured_first(tmp_path: Path) -> None:
    client = ScriptedClient()
    questions = examples(2)
    results = run_all(client, tmp_path, questions, "none", "full")
    assert ["document_spans" in f for f in client.asked] == [False] * 6 + [True] * 6
    assert all(results.measured[q.key, "none"].kl is not None for q in questions)


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_a_failing_question_costs_itself_only(tmp_path: Path, concurrency: int) -> None:
    client = ScriptedClient()
    client.refuses = {"q1?"}
    questions = examples(5)
    results = run_all(client, tmp_path, questions, "full", "sink", concurrency=concurrency)
    assert results.failed == {
        (questions[1].key, mode): "refused by the script" for mode in ("full", "sink")
    }
    assert len(results.measured) == 8


def test_a_run_continues_with_what_is_missing_or_failed(tmp_path: Path) -> None:
    questions = examples(4)
    first = ScriptedClient()
    first.refuses = {"q1?"}
    run_all(first, tmp_path, questions[:3], "sink")
    again = ScriptedClient()
    results = run_all(again, tmp_path, questions, "sink")
    asked = {text_of(f)[5:8] for f in again.asked}
    assert asked == {"q1?", "q3?"}
    assert len(results.measured) == 4
    assert not results.failed
    last = ScriptedClient()
    assert run_all(last, tmp_path, questions, "sink").measured == results.measured
    assert not last.asked


def test_a_mode_is_measured_again_once_there_is_something_to_compare_with(tmp_path: Path) -> None:
    questions = examples(1)
    assert run_all(ScriptedClient(), tmp_path, questions, "none").measured.popitem()[1].kl is None
    results = run_all(ScriptedClient(), tmp_path, questions, "none", "full")
    assert results.measured[questions[0].key, "none"].kl is not None


def test_results_so_far_survive_a_server_that_dies(tmp_path: Path) -> None:
    client = ScriptedClient()
    client.error = ServerUnreachable("gone")
    client.answers_before_error = 7  # two questions of three requests, and one request
    questions = examples(5)
    with pytest.raises(ServerUnreachable, match="gone"):
        run_all(client, tmp_path, questions, "sink")
    results = run_all(ScriptedClient(), tmp_path, questions, "sink")
    assert len(results.measured) == 5
    lines = results_path(tmp_path).read_text().splitlines()
    assert len(lines) == 1 + 5  # nothing was asked twice


def test_answers_of_an_unknown_shape_are_failures(tmp_path: Path) -> None:
    client = ScriptedClient()
    client.error = KeyError("meta_info")
    results = run_all(client, tmp_path, examples(2), "sink")
    assert list(results.failed.values()) == ["'meta_info'"] * 2


def test_settings_are_not_mixed(tmp_path: Path) -> None:
    run_all(ScriptedClient(), tmp_path, examples(1), "sink")
    before = results_path(tmp_path).read_bytes()
    other: dict[str, Any] = {"model": "n", "stop": ("x",)}
    with pytest.raises(ResultsError, match=r"model \(there 'm', now 'n'\)") as error:
        ResultsFile(results_path(tmp_path), other)
    assert "stop" not in str(error.value)
    assert results_path(tmp_path).read_bytes() == before


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    questions = examples(3)
    whole = run_all(ScriptedClient(), tmp_path, questions, "sink")
    path = results_path(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    client = ScriptedClient()
    results = run_all(client, tmp_path, questions, "sink")
    assert results.measured == whole.measured
    assert {text_of(f)[5:8] for f in client.asked} == {"q2?"}


def test_a_first_line_that_was_cut_off_is_no_obstacle(tmp_path: Path) -> None:
    results_path(tmp_path).write_text('{"settings": {"mod')
    assert len(run_all(ScriptedClient(), tmp_path, examples(1), "sink").measured) == 1


@pytest.mark.parametrize("text", ["hello\n", "[]\n", '{"question": "x"}\n', '{"question": "x"}'])
def test_other_files_are_left_alone(tmp_path: Path, text: str) -> None:
    results_path(tmp_path).write_text(text)
    with pytest.raises(ResultsError, match="no file of results"):
        ResultsFile(results_path(tmp_path), SETTINGS)
    assert results_path(tmp_path).read_text() == text
