"""Without documents, a server with the plugin is stock SGLang, with the cache off or on."""

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import requests

from sglang_lazy.warm.__main__ import main as warm

from ..engines import Completion, Server, ServerSlot, running_server
from .prompts import Writer
from .subject import scored

pytestmark = pytest.mark.server

Answers = dict[str, Completion]


def play(server: Server, writer: Writer) -> Answers:
    """The same document-free requests for every server, by name."""
    answers: Answers = {}

    def ask(name: str, ids: list[int], **sampling: object) -> list[int]:
        output = server.generate(input_ids=ids, **scored(**sampling))
        outputs = output if isinstance(output, list) else [output]
        for i, each in enumerate(outputs):
            answers[f"{name} {i}"] = Completion.of(each)
        return answers[f"{name} 0"].token_ids

    ask("single", writer.story(0, 40))
    ask("exact repeat", writer.story(0, 40))
    ask("one token", writer.story(0, 1))
    ask("shared prefix", writer.story(0, 25) + writer.story(1, 30))
    ask("parallel sampling", writer.story(2, 30), n=4)
    chat = writer.story(3, 20)
    for turn in range(3):
        chat = [*chat, *ask(f"chat turn {turn}", chat, max_new_tokens=8), *writer.story(4, 6)]
    prompts = [writer.story(5, 30) + writer.story(6 + i, 10) for i in range(4)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda i: ask(f"concurrent {i}", prompts[i]), range(4)))
    return answers


def test_nothing_is_added_to_a_server_with_the_cache_off(
    server_slot: ServerSlot, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = server_slot.get()
    assert requests.get(server.url + "/chunk_cache", timeout=60).status_code == 404
    corpus = tmp_path / "docs.jsonl"
    corpus.write_text('"a document"')
    assert warm(["--url", server.url, "--retries", "0", str(corpus)]) == 1
    assert "without --chunk-cache lazy" in capsys.readouterr().err


@pytest.fixture(scope="module")
def stock(model_dir: Path, server_slot: ServerSlot, writer: Writer) -> Answers:
    """SGLang with none but the CPU platform loaded."""
    server_slot.close()
    platforms = entry_points(group="sglang.srt.platforms")
    (platform,) = (p.name for p in platforms if p.value.startswith("sglang_lazy."))
    env = {"SGLANG_PLATFORM": platform, "SGLANG_PLUGINS": "none"}
    with running_server(model_dir, env) as server:
        return play(server, writer)


@pytest.mark.parametrize("config", [{}, {"chunk_cache": "lazy"}], ids=["off", "lazy"])
def test_no_documents(
    stock: Answers,
    server_slot: ServerSlot,
    writer: Writer,
    config: dict[str, str],
    tolerance: float,
) -> None:
    answers = play(server_slot.get(**config), writer)
    assert answers.keys() == stock.keys()
    for name, expected in stock.items():
        got = answers[name]
        assert got.token_ids == expected.token_ids, name
        assert got.logprobs == pytest.approx(expected.logprobs, abs=tolerance), name
        if not name.startswith("concurrent"):  # who comes first is a matter of luck
            assert got.cached_tokens == expected.cached_tokens, name


def test_stock_itself_reuses(stock: Answers) -> None:
    """The comparison is not between servers that never hit."""
    assert stock["exact repeat 0"].cached_tokens == 39
    assert stock["chat turn 1 0"].cached_tokens == 20 + 8
