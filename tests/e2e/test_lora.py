"""LoRA adapters: every token of a prompt is computed with the request's own.

That includes the sink and the local heads of documents, which stand in no prompt's row.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from sglang_lazy.evaluate.cli import main
from sglang_lazy.evaluate.dataset import Document, Example, write_examples
from sglang_lazy.evaluate.prompt import PromptWriter, chat_template

from ..engines import Completion, Server
from ..oracle import Oracle
from .adapters import Adapter, make_adapter
from .prompts import Prompt, Writer
from .subject import GREEDY, Subject, assert_reuse, scored

pytestmark = pytest.mark.server

BASE, A, B = None, "a", "b"


@pytest.fixture
def subject_of(
    tenants: Server,
    oracle: Oracle,
    adapters: dict[str, Adapter],
    tokenizer: Any,
    tolerance: float,
) -> Callable[[str | None], Subject]:
    """By adapter: the server, and the oracle with that adapter."""

    def make(name: str | None) -> Subject:
        dense = oracle if name is None else adapters[name].oracle
        return Subject(tenants, dense, tokenizer.bos_token_id, tolerance, "sink")

    return make


def ask(subject: Subject, prompt: Prompt, adapter: str | None, **fields: Any) -> Completion:
    request = {**subject.fields(prompt), **scored(), "lora_path": adapter, **fields}
    completion = Completion.of(subject.server.generate(**request))
    subject.check(prompt, completion)
    return completion


@pytest.fixture
def prompt(writer: Writer) -> Prompt:
    """S+A+B+Q of 14, 40, 30 and 9 tokens; does not begin with the sink token."""
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((14, 40, 30, 9)))
    return Prompt.of(s, (a,), (b,), q)


def test_adapters_are_told_apart(
    adapters: dict[str, Adapter], oracle: Oracle, prompt: Prompt
) -> None:
    """The oracles differ everywhere, by far more than the tolerance."""
    rows = [o.logprobs(prompt.segments) for o in (oracle, *(a.oracle for a in adapters.values()))]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert (rows[i] - rows[j]).abs().amax(dim=-1).min() > 0.1


def test_documents_belong_to_an_adapter(subject_of: Callable[..., Subject], prompt: Prompt) -> None:
    """What one adapter has cached is a miss for the others, in whatever order they come."""
    for adapter in (A, BASE, B):
        subject = subject_of(adapter)
        assert_reuse(ask(subject, prompt, adapter), 0, documents=2, hits=0)
    for adapter in (B, A, BASE):
        subject = subject_of(adapter)
        assert_reuse(ask(subject, prompt, adapter), len(prompt) - 1, documents=2, hits=2)


@pytest.mark.parametrize("link_tokens", [0, 5])
def test_mixed_pass(subject_of: Callable[..., Subject], writer: Writer, link_tokens: int) -> None:
    """One batch of all adapters: cold, then each with the documents in another order; and a
    prompt without documents.

    Sinks and local heads are computed behind the batch's rows, those of several adapters in
    one pass; the batch is longer than a chunk, too.
    """
    adapters = [A, BASE, B, A, B]
    a, b = writer.story(1, 45), writer.story(2, 35)
    subjects = [subject_of(adapter).with_link_tokens(link_tokens) for adapter in adapters]
    texts = [writer.story(3 + i, 6 + i) for i in range(len(adapters))]

    def prompts(documents: Sequence[list[int]]) -> list[Prompt]:
        spans = [(document,) for document in documents]
        with_documents = [Prompt.of(text, *spans, writer.story(15, 7)) for text in texts[:-1]]
        return [*with_documents, Prompt.of(texts[-1])]

    # Both of one adapter miss what one of them computes, or find it.
    for documents, hits in (((a, b), None), ((b, a), 2)):
        batch = prompts(documents)
        outputs = subjects[0].server.generate(
            input_ids=[prompt.input_ids for prompt in batch],
            document_spans=[prompt.document_spans for prompt in batch],
            chunk_link_tokens=link_tokens,
            lora_path=adapters,
            **scored(),
        )
        for subject, each, output in zip(subjects, batch, outputs, strict=True):
            completion = Completion.of(output)
            subject.check(each, completion)
            if hits is not None and each.document_spans:
                assert completion.chunk_cache["hits"] == hits


def test_long_document_in_chunks(subject_of: Callable[..., Subject], writer: Writer) -> None:
    """A document of two and a half chunks, while another adapter decodes."""
    a = Prompt.of(writer.story(1, 9), (writer.story(2, 640),), writer.story(3, 6))
    b = Prompt.of(writer.story(4, 5), (writer.story(5, 30),), writer.story(6, 8))
    outputs = subject_of(A).server.generate(
        input_ids=[b.input_ids, a.input_ids, a.input_ids],
        document_spans=[b.document_spans, a.document_spans, a.document_spans],
        lora_path=[B, A, BASE],
        **scored(max_new_tokens=12),
    )
    for adapter, prompt, output in zip((B, A, BASE), (b, a, a), outputs, strict=True):
        subject_of(adapter).check(prompt, Completion.of(output))


def test_prompt_logprobs(subject_of: Callable[..., Subject], prompt: Prompt) -> None:
    """Input logprobs are the adapter's, from the first token on."""
    subject = subject_of(A)
    output = subject.server.generate(
        **prompt.request(),
        sampling_params=GREEDY,
        return_logprob=True,
        logprob_start_len=0,
        lora_path=A,
    )
    rows, ids = subject.rows(prompt), prompt.input_ids
    got = [logprob for logprob, _, _ in output["meta_info"]["input_token_logprobs"]]
    expected = [rows[p - 1, ids[p]].item() for p in range(1, len(ids))]
    assert got[1:] == pytest.approx(expected, abs=subject.tolerance)


def test_parallel_sampling(subject_of: Callable[..., Subject], prompt: Prompt) -> None:
    subject = subject_of(B)
    outputs = subject.server.generate(**prompt.request(), **scored(n=3), lora_path=B)
    for output in outputs:
        completion = Completion.of(output)
        subject.check(prompt, completion)
        assert_reuse(completion, len(prompt) - 1, documents=2, hits=2)


def test_reloaded_adapter_finds_nothing_stale(
    subject_of: Callable[..., Subject], prompt: Prompt, model_dir: Path, tmp_path: Path
) -> None:
    """Other weights under the name and path of an adapter that was unloaded."""
    server = subject_of(BASE).server
    answers = []
    for seed in (1, 2):
        adapter = make_adapter(model_dir, tmp_path / "c", rank=4, seed=seed)
        subject = Subject(
            server, adapter.oracle, subject_of(BASE).sink_token_id, subject_of(A).tolerance, "sink"
        )
        server.post(
            "/load_lora_adapter", lora_name="c", lora_path=str(adapter.path)
        ).raise_for_status()
        try:
            assert_reuse(ask(subject, prompt, "c"), 0, documents=2, hits=0)
            answers.append(ask(subject, prompt, "c"))
            assert_reuse(answers[-1], len(prompt) - 1, documents=2, hits=2)
        finally:
            server.post("/unload_lora_adapter", lora_name="c").raise_for_status()
    assert answers[0].logprobs != pytest.approx(answers[1].logprobs, abs=0.1)


def test_unknown_adapter(subject_of: Callable[..., Subject], prompt: Prompt) -> None:
    server = subject_of(BASE).server
    response = server.post("/generate", **prompt.request(), lora_path="nobody")
    assert response.status_code == 400
    assert "nobody" in response.text
    ask(subject_of(A), prompt, A)


def test_models_are_listed(tenants: Server) -> None:
    listed = requests.get(f"{tenants.url}/v1/models", timeout=30).json()["data"]
    assert {"a", "b"} <= {model["id"].split(":")[-1] for model in listed}


def test_evaluation_of_an_adapter(
    subject_of: Callable[..., Subject],
    adapters: dict[str, Adapter],
    tokenizer: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`python -m sglang_lazy.evaluate run --lora-path`: NLL of the gold answer is the adapter's."""
    subject = subject_of(A)
    documents = (Document("Belka sold the violin."), Document("Arvid hid the kettle."))
    example = Example("Who sold the violin?", documents, ("Belka",))
    write_examples(tmp_path / "q.jsonl", [example])
    arguments = ["run", str(tmp_path / "q.jsonl"), "--url", subject.server.url, "--no-reorder"]
    arguments += ["--max-new-tokens", "1", "--modes", "sink", "--lora-path"]
    assert main([*arguments, A]) == 0
    line = json.loads((tmp_path / "q.results.jsonl").read_text().splitlines()[1])
    writer = PromptWriter(chat_template(tokenizer), tokenizer)
    prompt, gold = writer.prompt(documents, example.question), writer.answer(example.gold)
    spans = prompt.document_spans
    before, after = prompt[: spans[0][0]], prompt[spans[-1][1] :]
    whole = Prompt.of(before, *((prompt[a:b],) for a, b in spans), [*after, *gold])
    rows = subject.rows(whole, len(prompt) - 1)
    expected = -sum(rows[i, token].item() for i, token in enumerate(gold))
    assert line["result"]["nll"] == pytest.approx(expected, abs=subject.tolerance * len(gold))

    capsys.readouterr()
    assert main([*arguments, "nobody", "--results", str(tmp_path / "other.jsonl")]) == 1
    assert "nobody" in capsys.readouterr().err
