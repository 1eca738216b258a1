"""Prompts prefilled in chunks that are shorter than their documents, under all that can stop them.

One server overlaps scheduling with computing, the other one does not.
"""

import random
from collections.abc import Callable, Sequence

import pytest
import requests

from ..oracle import Mode
from .prompts import Prompt, Writer
from .subject import GREEDY, Subject, assert_reuse
from .traffic import Stream, results, traffic, wait_for_load, was_aborted

pytestmark = pytest.mark.server

MODES: Sequence[Mode] = ("sink", "none", "preamble")
SETTINGS = (
    {"chunked_prefill_size": 16},
    {"chunked_prefill_size": 37, "disable_overlap_schedule": True},
)
POOL = 1600


@pytest.fixture(params=SETTINGS, ids=["16", "37"])
def tiny(make_subject: Callable[..., Subject], request: pytest.FixtureRequest) -> Subject:
    return make_subject("sink", max_total_tokens=POOL, **request.param)


def chunk_size(subject: Subject) -> int:
    return 16


def assert_healthy(subject: Subject, writer: Writer) -> None:
    """As a fresh server: an empty cache, and answers right, cold and warm."""
    subject.server.flush_cache()
    prompt = Prompt.of(writer.story(20, 30), (writer.story(21, 50),), writer.story(22, 10))
    assert_reuse(subject.ask(prompt), 0, documents=1, hits=0)
    assert_reuse(subject.ask(prompt), len(prompt) - 1, documents=1, hits=1)


@pytest.mark.parametrize("mode", MODES)
def test_cut_everywhere(tiny: Subject, writer: Writer, mode: Mode) -> None:
    """S + A (cached) + N (new) + B (cached) + Q: cuts within, at and around every boundary."""
    subject = tiny.with_mode(mode)
    q = writer.story(5, 19)
    for i, length in enumerate((1, 15, 16, 17, 36, 37, 38)):
        s, n = writer.story(1, length), writer.story(6 + i, 33 + i)
        a, b = writer.story(2, 16 + i), writer.story(3, 37 - i)
        subject.ask(Prompt.of(s, (a,), q, (b,), q))
        holes = subject.ask(Prompt.of(s, (a,), (n,), (b,), q))
        assert_reuse(holes, len(s) + len(a) + len(b), documents=3, hits=2)
        repeat = subject.ask(Prompt.of(s, (a,), (n,), (b,), q))
        assert_reuse(repeat, len(repeat.meta_info) * 0 + len(s + a + n + b + q) - 1, 3, 3)


def random_prompt(rng: random.Random, writer: Writer) -> Prompt:
    """Up to five of twelve documents, of 1 to 130 tokens; some begin alike."""
    parts: list = []
    for _ in range(rng.randint(1, 5)):
        if rng.random() < 0.6:
            parts.append(writer.story(rng.randint(20, 23), rng.choice((1, 5, 16, 40))))
        seed = rng.randint(0, 3)
        parts.append((writer.story(seed, rng.choice((1, 16, 37, 64, 130))),))
    return Prompt.of(*parts, writer.story(rng.randint(24, 25), rng.choice((1, 7, 20))))


def test_random_prompts_at_once(tiny: Subject, writer: Writer) -> None:
    """All modes and numbers of link tokens in one batch, decoding between the chunks."""
    rng = random.Random(7)
    for _ in range(2):
        with traffic() as background:
            futures = [
                background.send(
                    tiny.with_mode(rng.choice(MODES)).with_link_tokens(
                        rng.choice((0, 0, 1, 7, 20))
                    ),
                    random_prompt(rng, writer),
                    max_new_tokens=rng.randint(1, 12),
                )
                for _ in range(16)
            ]
            results(futures)
    assert_healthy(tiny, writer)


def test_document_longer_than_what_is_free(tiny: Subject, writer: Writer) -> None:
    """While another request decodes, the cached documents make room chunk by chunk."""
    with traffic() as background:
        for i in range(8):
            tiny.ask(Prompt.of((writer.story(i, 150),), writer.story(20, 5)))
        running = background.send(
            tiny, Prompt.of((writer.story(9, 100),), writer.story(20, 9)), max_new_tokens=60
        )
        long = Prompt.of(writer.story(21, 9), (writer.story(10, 1300),), writer.story(22, 9))
        assert_reuse(tiny.ask(long), 0, documents=1, hits=0)
        results([running])
    assert_reuse(tiny.ask(long), len(long) - 1, documents=1, hits=1)
    assert_healthy(tiny, writer)


def test_document_that_can_never_fit(tiny: Subject, writer: Writer) -> None:
    """Refused with the lengths named, while others go on."""
    with traffic() as background:
        other = Prompt.of(writer.story(1, 9), (writer.story(2, 300),), writer.story(3, 9))
        running = background.send(tiny, other, max_new_tokens=40)
        for link_tokens in (0, 7):
            subject = tiny.with_link_tokens(link_tokens)
            prompt = Prompt.of((writer.story(4, POOL),), writer.story(3, 9))
            response = subject.server.post(
                "/generate", **subject.fields(prompt), sampling_params=GREEDY
            )
            assert response.status_code == 400
            assert str(len(prompt)) in response.text and str(POOL)[:3] in response.text
        results([running])
    assert_healthy(tiny, writer)


@pytest.mark.parametrize("link_tokens", [0, 7])
def test_abort_between_chunks(tiny: Subject, writer: Writer, link_tokens: int) -> None:
    """What was computed of the document is kept; one who waits for it goes on with the rest."""
    subject = tiny.with_link_tokens(link_tokens)
    a, q = writer.story(1, 900), writer.story(2, 9)
    with traffic() as background:
        first = background.send(subject, Prompt.of(writer.story(3, 30), (a,), q), rid="first")
        wait_for_load(subject, running=1)
        waiting = background.send(subject, Prompt.of(writer.story(4, 20), (a,), q))
        wait_for_load(subject, running=1, waiting=1)
        subject.server.post("/abort_request", rid="first").raise_for_status()
        assert was_aborted(first.result(60))
        completion = waiting.result(60)
    assert 0 < completion.chunk_cache["cached_tokens"] < len(a)
    assert_healthy(subject, writer)


def test_disconnect_between_chunks(tiny: Subject, writer: Writer) -> None:
    prompt = Prompt.of(writer.story(3, 30), (writer.story(1, 900),), writer.story(2, 9))
    for _ in range(3):
        with pytest.raises(requests.RequestException):
            fields = {**tiny.fields(prompt), "sampling_params": GREEDY}
            requests.post(f"{tiny.server.url}/generate", json=fields, timeout=0.15)
    tiny.ask(prompt)
    assert_healthy(tiny, writer)


def test_abort_all(tiny: Subject, writer: Writer) -> None:
    """One decodes, one is between two chunks, one waits for its document, one waits its turn."""
    a, q = writer.story(1, 700), writer.story(2, 9)
    decoding = Stream(tiny, Prompt.of((writer.story(3, 50),), q), max_new_tokens=500).wait_for(2)
    with traffic() as background:
        others = [background.send(tiny, Prompt.of(writer.story(4, 30), (a,), q))]
        wait_for_load(tiny, running=2)
        others.append(background.send(tiny, Prompt.of(writer.story(5, 20), (a,), q)))
        others.append(background.send(tiny, Prompt.of(writer.story(6, 500), (q,), q)))
        wait_for_load(tiny, running=2, waiting=2)
        tiny.server.post("/abort_request", abort_all=True).raise_for_status()
        assert all(map(was_aborted, results(others)))
    assert was_aborted(decoding.finish())
    tiny.ask(Prompt.of(writer.story(5, 20), (a,), q))
    assert_healthy(tiny, writer)
