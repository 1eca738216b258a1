"""Prompts prefilled in chunks shorter than their documents, and what may stop them in between.

One server overlaps scheduling with computing, the other one does not.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import requests

from ..oracle import Mode
from .prompts import Prompt, Writer
from .subject import GREEDY, Subject, assert_reuse
from .traffic import (
    Stream,
    results,
    traffic,
    wait_for_document_tokens,
    wait_for_queue,
    was_aborted,
)

pytestmark = pytest.mark.server

POOL = 1600


@pytest.fixture(
    scope="module",  # so that all tests of one server run in a row
    params=[
        {"chunked_prefill_size": 16},
        {"chunked_prefill_size": 37, "disable_overlap_schedule": True},
    ],
    ids=["16, overlap", "37, no overlap"],
)
def settings(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    return request.param


@pytest.fixture
def tiny(make_subject: Callable[..., Subject], settings: Mapping[str, Any]) -> Subject:
    return make_subject("sink", max_total_tokens=POOL, **settings)


def assert_healthy(subject: Subject, writer: Writer) -> None:
    """As a fresh server: an empty cache, and answers right, cold and warm."""
    subject.server.flush_cache()
    prompt = Prompt.of(writer.story(20, 30), (writer.story(21, 50),), writer.story(22, 10))
    assert_reuse(subject.ask(prompt), 0, documents=1, hits=0)
    assert_reuse(subject.ask(prompt), len(prompt) - 1, documents=1, hits=1)


@pytest.mark.parametrize(
    ("mode", "length"),
    [("sink", 1), ("sink", 16), ("sink", 37), ("none", 15), ("preamble", 36)],
)
def test_cut_everywhere(tiny: Subject, writer: Writer, mode: Mode, length: int) -> None:
    """S + A (cached) + N (new) + B (cached) + Q, cut within each and at their ends (case 4)."""
    subject = tiny.with_mode(mode)
    s, q = writer.story(1, length), writer.story(5, 19)
    a, n, b = writer.story(2, 37), writer.story(3, 50), writer.story(4, 16)
    subject.ask(Prompt.of(s, (a,), q, (b,), q))
    prompt = Prompt.of(s, (a,), (n,), (b,), q)
    assert_reuse(subject.ask(prompt), len(s + a + b), documents=3, hits=2)
    assert_reuse(subject.ask(prompt), len(prompt) - 1, documents=3, hits=3)


def random_request(rng: random.Random, tiny: Subject, writer: Writer) -> tuple[Subject, Prompt]:
    """Up to five documents of 1 to 130 tokens, some of which begin alike."""
    parts: list[Any] = []
    for _ in range(rng.randint(1, 5)):
        if rng.random() < 0.6:
            parts.append(writer.story(rng.randint(20, 23), rng.choice((1, 5, 16, 40))))
        parts.append((writer.story(rng.randint(0, 3), rng.choice((1, 16, 37, 64, 130))),))
    question = writer.story(rng.randint(24, 25), rng.choice((1, 7, 20)))
    mode: Mode = rng.choice(("sink", "none", "preamble"))
    subject = tiny.with_mode(mode).with_link_tokens(rng.choice((0, 0, 1, 7, 20)))
    return subject, Prompt.of(*parts, question)


def test_random_prompts_at_once(tiny: Subject, writer: Writer) -> None:
    """All modes and numbers of link tokens in one batch; some decode while others are chunked."""
    rng = random.Random(7)
    with traffic() as background:
        results(
            [
                background.send(
                    *random_request(rng, tiny, writer), max_new_tokens=rng.randint(1, 12)
                )
                for _ in range(16)
            ]
        )


def test_cold_document_wanted_by_all(tiny: Subject, writer: Writer) -> None:
    """Sixteen prompts have it at different places: one computes it; again at once (case 5).

    Who comes when less of it is left than is worth waiting for may compute its last chunk too.
    """
    a = writer.story(1, 280)
    prompts = [Prompt.of(writer.story(2 + i, 3 + i), (a,), writer.story(20, 4)) for i in range(16)]
    cached = []
    for _ in range(2):
        with traffic() as background:
            completions = results([background.send(tiny, p, max_new_tokens=2) for p in prompts])
        cached.append(sum(c.chunk_cache["cached_tokens"] for c in completions))
    assert 15 * (len(a) - 37) <= cached[0] <= 15 * len(a)
    assert cached[1] == 16 * len(a)


def test_documents_wanted_crosswise(tiny: Subject, writer: Writer) -> None:
    """Each waits for a document of the other, if both are cold; nobody waits for ever."""
    x, y, z = (writer.story(i, 260) for i in (1, 2, 3))
    pairs = [(x, y), (y, x), (z, y), (x, z)]
    with traffic() as background:
        results(
            [
                background.send(tiny, Prompt.of(writer.story(4 + i, 9), (a,), (b,), a[:5]))
                for i, (a, b) in enumerate(pairs)
            ]
        )


def test_document_longer_than_what_is_free(tiny: Subject, writer: Writer) -> None:
    """While another request decodes, cached documents make room, chunk by chunk."""
    long = Prompt.of(writer.story(21, 9), (writer.story(10, 900),), writer.story(22, 9))
    for i in range(4):
        tiny.ask(Prompt.of((writer.story(i, 300),), writer.story(20, 5)), max_new_tokens=1)
    short = Prompt.of((writer.story(9, 100),), writer.story(20, 9))
    decoding = Stream(tiny, short, max_new_tokens=60).wait_for(2)
    assert_reuse(tiny.ask(long, max_new_tokens=2), 0, documents=1, hits=0)
    decoding.check()
    assert_reuse(tiny.ask(long, max_new_tokens=2), len(long) - 1, documents=1, hits=1)


def test_document_that_can_never_fit(tiny: Subject, writer: Writer) -> None:
    """Refused with the lengths named, while others go on."""
    other = Prompt.of(writer.story(1, 9), (writer.story(2, 100),), writer.story(3, 9))
    decoding = Stream(tiny, other, max_new_tokens=40).wait_for(2)
    never = Prompt.of((writer.story(4, POOL),), writer.story(3, 9))
    for link_tokens in (0, 7):
        fields = tiny.with_link_tokens(link_tokens).fields(never)
        response = tiny.server.post("/generate", **fields, sampling_params=GREEDY)
        assert response.status_code == 400
        assert f"{len(never)} tokens" in response.text
        assert "maximum allowed length" in response.text
    decoding.check()


@pytest.mark.parametrize("link_tokens", [0, 7])
def test_abort_between_chunks(tiny: Subject, writer: Writer, link_tokens: int) -> None:
    """What was computed of the document is kept; one who waits for it goes on with the rest."""
    subject = tiny.with_link_tokens(link_tokens)
    a, q = writer.story(1, 1100), writer.story(2, 9)
    with traffic() as background:
        first = background.send(subject, Prompt.of(writer.story(3, 30), (a,), q), rid="first")
        wait_for_document_tokens(subject, 16)
        waiting = background.send(subject, Prompt.of(writer.story(4, 20), (a,), q))
        wait_for_queue(subject, 1)
        subject.server.post("/abort_request", rid="first").raise_for_status()
        assert was_aborted(first.result(60))
        completion = waiting.result(60)
    assert 0 < completion.chunk_cache["cached_tokens"] < len(a)
    assert_healthy(subject, writer)


def test_disconnect_between_chunks(tiny: Subject, writer: Writer) -> None:
    prompt = Prompt.of(writer.story(3, 30), (writer.story(1, 700),), writer.story(2, 9))
    fields = {**tiny.fields(prompt), "sampling_params": GREEDY}
    for seconds in (0.1, 0.2):
        with pytest.raises(requests.RequestException):
            requests.post(f"{tiny.server.url}/generate", json=fields, timeout=seconds)
    tiny.ask(prompt)
    assert_healthy(tiny, writer)


def test_abort_all(tiny: Subject, writer: Writer) -> None:
    """One decodes, one is between two chunks, one waits for its document, one waits its turn."""
    a, q = writer.story(1, 1200), writer.story(2, 9)
    decoding = Stream(tiny, Prompt.of((writer.story(3, 50),), q), max_new_tokens=200).wait_for(2)
    with traffic() as background:
        others = [background.send(tiny, Prompt.of(writer.story(4, 30), (a,), q))]
        wait_for_document_tokens(tiny, 50 + 16)
        others.append(background.send(tiny, Prompt.of(writer.story(5, 20), (a,), q)))
        others.append(background.send(tiny, Prompt.of(writer.story(6, 60), (q,), q)))
        wait_for_queue(tiny, 2)
        tiny.server.post("/abort_request", abort_all=True, rid="").raise_for_status()
        assert all(map(was_aborted, results(others)))
    assert was_aborted(decoding.finish())
    assert_healthy(tiny, writer)
