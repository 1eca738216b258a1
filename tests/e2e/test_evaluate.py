"""The evaluation against a real server: its figures are those of the dense oracle."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from sglang_lazy.evaluate.cli import main
from sglang_lazy.evaluate.dataset import Document, Example, write_examples
from sglang_lazy.evaluate.measure import Measurement
from sglang_lazy.evaluate.prompt import PromptWriter, chat_template
from sglang_lazy.patches.generate_request import SegmentedGenerateReqInput
from sglang_lazy.request.segments import SegmentedIds

from ..engines import ServerSlot
from ..oracle import Mode, Oracle, Segment
from .prompts import sentences

pytestmark = pytest.mark.server

LAZY: tuple[Mode, ...] = ("none", "sink", "preamble")
MODES = ("full", *LAZY, "no-documents")
TOP_LOGPROBS = 64


def questions() -> list[Example]:
    stories = [
        Document(" ".join(next(story).strip() for _ in range(3)), f"Story {i}")
        for i in range(4)
        for story in [sentences(i)]
    ]
    return [
        Example("Who repaired the lantern?", tuple(stories[:3]), ("Belka", "Fenna"), "who"),
        Example("Where was the violin?", tuple(stories[1:]), ("Ostrava",), "where"),
        Example("Who hid the kettle?", (stories[3], stories[0]), ("nobody",), "who", "Nobody did."),
    ]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    folder: Path
    arguments: list[str]
    status: int

    def measured(self) -> dict[tuple[str, str], Measurement]:
        lines = (self.folder / "q.results.jsonl").read_text().splitlines()[1:]
        return {
            (data["example"], data["mode"]): Measurement.of_json(data["result"])
            for data in map(json.loads, lines)
        }


@pytest.fixture(scope="module")
def outcome(
    server_slot: ServerSlot, tolerance: float, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    server = server_slot.get(chunk_cache="lazy")
    folder = tmp_path_factory.mktemp("evaluate")
    write_examples(folder / "q.jsonl", questions())
    arguments = [
        *("run", str(folder / "q.jsonl"), "--url", server.url),
        *("--modes", *MODES, "--max-new-tokens", "8", "--concurrency", "2"),
        *("--top-logprobs", str(TOP_LOGPROBS), "--out", str(folder / "out.json")),
        *("--plot", str(folder / "plot.png"), "--record", str(folder / "records")),
    ]
    return Outcome(folder, arguments, main(arguments))


@pytest.fixture(scope="module")
def prompts(tokenizer: Any) -> PromptWriter:
    return PromptWriter(chat_template(tokenizer), tokenizer)


def segments_of(prompt: SegmentedIds, gold: Sequence[int]) -> list[Segment]:
    segments: list[Segment] = []
    end = 0
    for start, stop in prompt.document_spans:
        segments += [("text", prompt[end:start]), ("document", prompt[start:stop])]
        end = stop
    return [*segments, ("text", [*prompt[end:], *gold])]


def rows(oracle: Oracle, prompts: PromptWriter, example: Example, mode: str) -> torch.Tensor:
    """The oracle's logprobs from the prompt's last token on, [gold tokens + 1, vocabulary]."""
    documents = () if mode == "no-documents" else example.documents
    prompt = prompts.prompt(documents, example.question)
    gold = prompts.answer(example.gold)
    if mode in LAZY:
        sink = prompts.tokenizer.bos_token_id
        return oracle.logprobs(segments_of(prompt, gold), mode, sink, len(prompt) - 1)  # type: ignore[arg-type]
    with torch.inference_mode():
        logits = oracle.model(torch.tensor([[*prompt, *gold]])).logits[0]
    return logits[len(prompt) - 1 :].float().log_softmax(-1)


@pytest.mark.parametrize("mode", MODES)
def test_nll_and_divergence(
    outcome: Outcome, oracle: Oracle, prompts: PromptWriter, tolerance: float, mode: str
) -> None:
    assert outcome.status == 0
    measured = outcome.measured()
    divergences = []
    for example in questions():
        found = measured[example.key, mode]
        gold = prompts.answer(example.gold)
        expected = rows(oracle, prompts, example, mode)
        nll = -sum(expected[i, token].item() for i, token in enumerate(gold))
        assert found.answer_tokens == len(gold)
        assert found.nll == pytest.approx(nll, abs=tolerance * len(gold))

        full = rows(oracle, prompts, example, "full")[0].double()
        other = expected[0].double()
        both = set(full.topk(TOP_LOGPROBS).indices.tolist())
        both &= set(other.topk(TOP_LOGPROBS).indices.tolist())
        kept = torch.zeros(len(full), dtype=torch.bool)
        kept[list(both)] = True
        p, q = full.exp(), other.exp()
        p_rest, q_rest = 1 - p[kept].sum(), 1 - q[kept].sum()
        kl = (p * (full - other))[kept].sum() + p_rest * (p_rest / q_rest).log()
        exact = (p * (full - other)).sum().item()
        assert found.kl == pytest.approx(kl.item(), abs=tolerance)
        assert found.kl <= exact + tolerance
        divergences.append(found.kl)
    if mode != "full":
        assert max(divergences) > 3 * tolerance, "the modes compute the same: nothing is compared"


def test_answers_are_greedy(outcome: Outcome, oracle: Oracle, prompts: PromptWriter) -> None:
    (example, *_) = questions()
    prompt = prompts.prompt(example.documents, example.question)
    generated = oracle.model.generate(
        torch.tensor([list(prompt)]),
        max_new_tokens=8,
        do_sample=False,
        pad_token_id=prompts.tokenizer.pad_token_id,
    )[0, len(prompt) :]
    expected = prompts.tokenizer.decode(generated, skip_special_tokens=True).strip()
    assert outcome.measured()[example.key, "full"].answer.text == expected


@pytest.mark.parametrize("mode", LAZY)
def test_reordered_documents_are_all_found(outcome: Outcome, mode: str) -> None:
    for example in questions():
        found = outcome.measured()[example.key, mode]
        assert found.reordered is not None
        assert found.reordered.cached_document_tokens == found.reordered.document_tokens > 0
        full = outcome.measured()[example.key, "full"]
        assert full.reordered is not None
        assert full.reordered.prompt_tokens == found.reordered.prompt_tokens
        assert full.reordered.cached_tokens < found.reordered.cached_tokens
        assert full.answer.document_tokens == 0


def test_files(outcome: Outcome) -> None:
    data = json.loads((outcome.folder / "out.json").read_text())
    assert {name: figures["n"] for name, figures in data["modes"].items()} == dict.fromkeys(
        MODES, 3
    )
    assert {kind: modes["sink"]["n"] for kind, modes in data["kinds"].items()} == {
        "who": 2,
        "where": 1,
    }
    assert str(outcome.folder) not in json.dumps(data["command"].split()[4:])
    assert (outcome.folder / "plot.png").stat().st_size > 1000
    records = sorted(path.name for path in (outcome.folder / "records").iterdir())
    assert records == sorted(f"quality_{mode}.json" for mode in (*LAZY, "no_documents"))


def test_a_second_run_asks_nothing(outcome: Outcome) -> None:
    path = outcome.folder / "q.results.jsonl"
    before = path.read_bytes()
    assert main(outcome.arguments) == 0
    assert path.read_bytes() == before


def test_a_question_that_fails_is_reported(
    outcome: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    too_long = Example("Who?", (Document("lantern " * 9000),), ("Belka",))
    write_examples(tmp_path / "q.jsonl", [too_long, questions()[0]])
    url = outcome.arguments[outcome.arguments.index("--url") + 1]
    assert main(["run", str(tmp_path / "q.jsonl"), "--url", url, "--modes", "full", "sink"]) == 1
    output = capsys.readouterr()
    assert "2 results are missing" in output.err
    assert "context length" in output.err
    assert "1 failed" in output.out
    lines = list(map(json.loads, (tmp_path / "q.results.jsonl").read_text().splitlines()[1:]))
    failed = {(line["example"], line["mode"]) for line in lines if "error" in line}
    assert failed == {(too_long.key, "full"), (too_long.key, "sink")}
    assert len(lines) == 4


def test_link_tokens(outcome: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured by a server that has them; by others not passed off as another mode."""
    known = "chunk_link_tokens" in {f.name for f in dataclasses.fields(SegmentedGenerateReqInput)}
    write_examples(tmp_path / "q.jsonl", questions()[:1])
    url = outcome.arguments[outcome.arguments.index("--url") + 1]
    status = main(["run", str(tmp_path / "q.jsonl"), "--url", url, "--modes", "full", "link:4"])
    refused = "mode link:4 cannot be measured: the server does not know" in capsys.readouterr().err
    assert (status, refused) == ((0, False) if known else (1, True))
