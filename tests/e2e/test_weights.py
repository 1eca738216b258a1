"""What an operator does to a server that runs: flush, pause, other weights, giving memory back.

The server is that of test_priority.py. Every test leaves the first weights behind.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from ..engines import Completion
from ..oracle import Oracle
from .prompts import Prompt, Writer
from .subject import GREEDY, Subject, assert_reuse, largest_error
from .traffic import Stream, cache_summary, traffic, wait_until_idle, was_aborted

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def other_model_dir(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with slightly other weights."""
    path = tmp_path_factory.mktemp("model") / "other"
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 0.1 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def other_oracle(other_model_dir: Path) -> Oracle:
    return Oracle(other_model_dir)


@pytest.fixture
def subject(make_subject: Callable[..., Subject]) -> Subject:
    return make_subject(
        "sink", max_total_tokens=900, max_running_requests=2, enable_priority_scheduling=True
    )


@pytest.fixture
def load_weights(subject: Subject, model_dir: Path) -> Iterator[Callable[..., None]]:
    def load(path: Path, flush: bool) -> None:
        if flush:
            wait_until_idle(subject)
        response = subject.server.post(
            "/update_weights_from_disk", model_path=str(path), flush_cache=flush
        )
        assert response.status_code == 200 and response.json()["success"], response.text

    yield load
    load(model_dir, flush=True)


def post(subject: Subject, path: str, **fields: Any) -> None:
    response = subject.server.post(path, **fields)
    assert response.status_code == 200, response.text


def prompts_of(writer: Writer, subject: Subject) -> list[tuple[Subject, Prompt]]:
    """With a sink of its own, behind the prompt's first token, and with link tokens."""
    a, q = writer.story(1, 60), writer.story(2, 9)
    bos = [subject.sink_token_id]
    return [
        (subject, Prompt.of((a,), q)),
        (subject, Prompt.of(bos + writer.story(3, 20), (writer.story(4, 30),), q)),
        (subject.with_link_tokens(4), Prompt.of(writer.story(5, 20), (a,), q)),
        (subject.with_mode("preamble"), Prompt.of(writer.story(6, 20), (a,), q)),
    ]


@pytest.mark.parametrize("flush", [True, False])
def test_kv_of_old_weights_is_not_served(
    subject: Subject,
    writer: Writer,
    load_weights: Callable[..., None],
    model_dir: Path,
    other_model_dir: Path,
    other_oracle: Oracle,
    flush: bool,
) -> None:
    """Not the documents, nor the sink, nor the text around them, when the cache is kept."""
    plain = Prompt.of(writer.story(7, 40))
    for asked, prompt in prompts_of(writer, subject):
        asked.ask(prompt)
    subject.ask(plain)
    load_weights(other_model_dir, flush)
    # As on stock SGLang: the client wants the cache kept.
    reused = Completion.of(subject.server.generate(**plain.request(), sampling_params=GREEDY))
    assert reused.cached_tokens == (0 if flush else len(plain) - 1)
    other = replace(subject, oracle=other_oracle)
    first, *rest = prompts_of(writer, other)
    assert_reuse(first[0].ask(first[1]), 0, documents=1, hits=0)
    for asked, prompt in rest:
        asked.ask(prompt)
    assert_reuse(first[0].ask(first[1]), len(first[1]) - 1, documents=1, hits=1)
    load_weights(model_dir, flush)
    assert_reuse(subject.ask(first[1]), 0, documents=1, hits=0)


@pytest.mark.parametrize("mode", ["in_place", "retract"])
def test_pause(subject: Subject, writer: Writer, mode: str) -> None:
    """One is answered, one is computed or waits; both go on afterwards."""
    a = writer.story(1, 60)
    stream = Stream(subject, Prompt.of((a,), writer.story(2, 9)), max_new_tokens=150).wait_for(3)
    with traffic() as background:
        other = background.send(subject, Prompt.of((a,), (writer.story(3, 300),), a[:9]))
        post(subject, "/pause_generation", mode=mode)
        assert not other.done()
        post(subject, "/continue_generation")
        other.result(60)
        retractions = stream.check().meta_info["num_retractions"]
    assert (retractions > 0) == (mode == "retract")
    assert_reuse(subject.ask(Prompt.of((a,), writer.story(2, 9))), 60 + 8, documents=1, hits=1)


def test_pause_that_aborts(subject: Subject, writer: Writer) -> None:
    a = writer.story(1, 60)
    prompt = Prompt.of((a,), writer.story(2, 9))
    stream = Stream(subject, prompt, max_new_tokens=300).wait_for(3)
    post(subject, "/pause_generation", mode="abort")
    assert was_aborted(stream.finish())
    post(subject, "/continue_generation")
    assert_reuse(subject.ask(prompt), len(prompt) - 1, documents=1, hits=1)


def test_other_weights_during_a_pause(
    subject: Subject,
    writer: Writer,
    load_weights: Callable[..., None],
    other_model_dir: Path,
    other_oracle: Oracle,
) -> None:
    """A request that was put back goes on as if its answer so far were part of its prompt.

    Those that come later do not see what it computed before.
    """
    prompt = Prompt.of(writer.story(3, 20), (writer.story(1, 60),), writer.story(2, 9))
    stream = Stream(subject, prompt, max_new_tokens=60).wait_for(3)
    post(subject, "/pause_generation", mode="retract")
    load_weights(other_model_dir, flush=False)
    post(subject, "/continue_generation")
    completion = stream.finish()
    other = replace(subject, oracle=other_oracle)
    scored = prompt.then(completion.token_ids[:-1])
    errors = [
        [largest_error(rows[i : i + 1], _token(completion, i)) for i in range(60)]
        for rows in (s.rows(scored, start=len(prompt) - 1) for s in (subject, other))
    ]
    old, new = ([error <= subject.tolerance for error in row] for row in errors)
    switch = old.index(False)
    assert 3 <= switch < 60 and all(new[switch:]), (switch, new)
    other.ask(prompt)


def _token(completion: Completion, i: int) -> Completion:
    return replace(
        completion,
        token_ids=completion.token_ids[i : i + 1],
        logprobs=completion.logprobs[i : i + 1],
        top_logprobs=completion.top_logprobs[i : i + 1],
    )


def test_flush(subject: Subject, writer: Writer) -> None:
    """Refused while a request runs, which goes on; done when there is none."""
    a = writer.story(1, 60)
    prompt = Prompt.of((a,), writer.story(2, 9))
    stream = Stream(subject, prompt, max_new_tokens=60).wait_for(2)
    assert subject.server.post("/flush_cache").status_code == 400
    assert cache_summary(subject)["resident_documents"] == 1
    stream.check()
    subject.server.flush_cache()
    summary = cache_summary(subject)
    assert summary["resident_documents"] == summary["tokens"]["documents"] == 0
    assert summary["tokens"]["available"] == summary["tokens"]["capacity"]
    assert_reuse(subject.ask(prompt), 0, documents=1, hits=0)


@pytest.mark.parametrize("tags", [["kv_cache"], None])
def test_memory_given_back(subject: Subject, writer: Writer, tags: list[str] | None) -> None:
    """With the memory goes the cache, the sink included."""
    prompt = Prompt.of((writer.story(1, 60),), writer.story(2, 9))
    subject.ask(prompt)
    wait_until_idle(subject)
    post(subject, "/release_memory_occupation", tags=tags)
    post(subject, "/resume_memory_occupation", tags=tags)
    assert_reuse(subject.ask(prompt), 0, documents=1, hits=0)
