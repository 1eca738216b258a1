"""A pool that holds about three prompts: eviction, retraction, and the accounts after."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from .prompts import Prompt, Writer
from .subject import GREEDY, Subject, assert_reuse

pytestmark = pytest.mark.server


@pytest.fixture
def small(make_subject) -> Subject:
    """SGLang's own checks compare the accounts at every idle moment and every batch."""
    return make_subject("sink", max_total_tokens=640, schedule_conservativeness=0.01)


def assert_healthy(subject: Subject, writer: Writer) -> None:
    """As a fresh server: an empty cache, and answers right, cold and warm."""
    subject.server.flush_cache()
    prompt = Prompt.of(writer.story(20, 30), (writer.story(21, 50),), writer.story(22, 10))
    assert_reuse(subject.ask(prompt), 0, documents=1, hits=0)
    assert_reuse(subject.ask(prompt), len(prompt) - 1, documents=1, hits=1)


def test_eviction(small: Subject, writer: Writer) -> None:
    """More documents than fit, one after another; text may outlive the documents before it."""
    documents = [writer.story(i, 110) for i in range(8)]
    q = writer.story(10, 12)
    for i in range(8):
        pair = (documents[i],), (documents[(i + 3) % 8],)
        small.ask(Prompt.of(writer.story(11, 20), *pair, q))
    hits = 0
    for i in range(8):
        hits += small.ask(Prompt.of(writer.story(12, 15), (documents[i],), q)).chunk_cache["hits"]
    assert 0 < hits < 8, "the pool should hold some of the documents and not all"
    assert_healthy(small, writer)


def test_retraction(small: Subject, writer: Writer) -> None:
    """Decoding outgrows the pool: some requests are put back and computed again."""
    a = writer.story(1, 60)
    prompts = [
        Prompt.of(writer.story(2 + i, 20), (a,), (writer.story(10 + i, 30),), writer.story(19, 8))
        for i in range(8)
    ]
    completions = small.ask_at_once(prompts, max_new_tokens=120)
    assert sum(c.meta_info["num_retractions"] for c in completions) > 0
    for prompt, completion in zip(prompts, completions, strict=True):
        assert completion.cached_tokens <= len(prompt) + 120
    assert_healthy(small, writer)


def test_retraction_with_link_tokens(small: Subject, writer: Writer) -> None:
    subject = small.with_link_tokens(10)
    a = writer.story(1, 40)
    prompts = [
        Prompt.of(writer.story(2 + i, 20), (a,), (writer.story(10 + i, 30),), writer.story(19, 8))
        for i in range(8)
    ]
    completions = subject.ask_at_once(prompts, max_new_tokens=120)
    assert sum(c.meta_info["num_retractions"] for c in completions) > 0
    assert_healthy(subject, writer)


def test_heads_that_do_not_fit(small: Subject, writer: Writer) -> None:
    """Prompt and heads are larger than the pool: refused, and nothing blocks the queue."""
    documents = [(writer.story(i, 41),) for i in range(14)]
    prompt = Prompt.of(*documents, writer.story(20, 9))
    subject = small.with_link_tokens(40)
    response = subject.server.post("/generate", **subject.fields(prompt), sampling_params=GREEDY)
    assert response.status_code == 400
    assert "do not fit into the KV cache of 640 tokens" in response.text
    small.with_link_tokens(1).ask(prompt)
    assert_healthy(small, writer)


def test_disconnects_under_load(small: Subject, writer: Writer) -> None:
    """A third of 24 clients go away while their prompt is computed or answered."""
    a, q = writer.story(1, 120), writer.story(2, 10)

    def ask(i: int) -> int | None:
        subject = small.with_link_tokens(i % 4)
        fields = {
            **subject.fields(Prompt.of(writer.story(3 + i % 16, 20 + i), (a,), q)),
            "sampling_params": {**GREEDY, "max_new_tokens": 24},
        }
        if i % 3:
            response = requests.post(f"{small.server.url}/generate", json=fields, timeout=120)
            return response.status_code
        with contextlib.suppress(requests.RequestException):
            requests.post(f"{small.server.url}/generate", json=fields, timeout=0.05 + 0.03 * i)
        return None

    with ThreadPoolExecutor(max_workers=24) as pool:
        codes = list(pool.map(ask, range(24)))
    assert {code for code in codes if code is not None} == {200}
    assert_healthy(small, writer)
