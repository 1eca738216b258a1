"""`examples/ask_*.py` on one server: what each client sends arrives as documents."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from transformers import AutoTokenizer

from ..engines import Server, ServerSlot

EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTIONS = runpy.run_path(str(EXAMPLES / "questions.py"))
NOTES = {note.name: f"{note.title}\n{note.text}" for note in QUESTIONS["read_notes"]()}
REPORT = re.compile(r"^  ([\w, ]+): (\d+) of (\d+) prompt tokens", re.MULTILINE)
SCRIPTS = {
    "ask_openai": ["openai"],
    "ask_anthropic": ["anthropic"],
    "ask_langchain": ["langchain_openai", "bm25s"],
    "ask_llamaindex": ["llama_index.llms.openai_like", "llama_index.retrievers.bm25"],
    "ask_frontend": ["sglang"],
}


class Asked(NamedTuple):
    """What a script reports of a question."""

    names: list[str]
    cached_tokens: int
    prompt_tokens: int


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def ask(name: str, server: Server) -> list[Asked]:
    result = run(name, "--base-url", server.url)
    assert result.returncode == 0, result.stdout + result.stderr
    return [Asked(a.split(", "), int(b), int(c)) for a, b, c in REPORT.findall(result.stdout)]


@pytest.fixture
def server(server_slot: ServerSlot) -> Server:
    """A server with the lazy cache, its cache empty."""
    return server_slot.get(chunk_cache="lazy")


@pytest.fixture(scope="module")
def num_tokens(model_dir: Path) -> dict[str, int]:
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    return {name: len(tokenizer.encode(text)) for name, text in NOTES.items()}


def hits(server: Server, names: set[str]) -> Any:
    """How many of these notes `/generate` finds in the cache."""
    documents = [{"document": NOTES[name]} for name in sorted(names)]
    sampling = {"max_new_tokens": 1}
    output = server.generate(segments=[*documents, {"text": "Why?"}], sampling_params=sampling)
    return output["meta_info"]["chunk_cache"]["hits"]


@pytest.mark.server
@pytest.mark.parametrize(("name", "modules"), SCRIPTS.items())
def test_later_questions_reuse_notes(
    name: str, modules: list[str], server: Server, num_tokens: dict[str, int]
) -> None:
    """Each note is found whatever its rank, and is the same document as on other surfaces."""
    for module in modules:
        pytest.importorskip(module)
    first, *later = ask(name, server)
    assert first.cached_tokens == 0
    assert len(later) == len(QUESTIONS["QUESTIONS"]) - 1
    seen = set(first.names)
    for asked in later:
        shared = seen & set(asked.names)
        assert len(shared) >= 2
        assert asked.names[: len(first.names)] != first.names, "a prefix cache would do"
        cached = sum(num_tokens[each] for each in shared)
        assert cached <= asked.cached_tokens < asked.prompt_tokens
        seen |= set(asked.names)
    assert hits(server, seen) == len(seen)


def test_every_script_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("ask_*.py")} == {*SCRIPTS, "ask_all"}


def test_without_a_server_it_says_how_to_start_one() -> None:
    result = run("ask_openai")
    assert result.returncode == 2
    assert "--chunk-cache lazy" in result.stderr
