"""Chunked prefill may cut anywhere: in cached runs, missing documents and text."""

import pytest

from ..oracle import Mode
from .prompts import Prompt, Writer
from .subject import Subject, assert_reuse

pytestmark = pytest.mark.server
CHUNK = 64


@pytest.fixture
def chunked(make_subject) -> Subject:
    return make_subject("sink", chunked_prefill_size=CHUNK)


@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
@pytest.mark.parametrize("length", [3, 30, 63, 64, 65, 130])
def test_holes(chunked: Subject, writer: Writer, mode: Mode, length: int) -> None:
    """S+A+N+B+Q, where A and B are cached, and the cuts move with the length of S."""
    subject = chunked.with_mode(mode)
    s, q = writer.story(1, length), writer.story(5, 20)
    a, n, b = writer.story(2, 50), writer.story(3, 70), writer.story(4, 40)
    subject.ask(Prompt.of(s, (a,), (b,), q))
    holes = subject.ask(Prompt.of(s, (a,), (n,), (b,), q))
    assert_reuse(holes, len(s) + len(a) + len(b), documents=3, hits=2)
    full = subject.ask(Prompt.of(s, (b,), (n,), (a,), q))
    assert_reuse(full, len(s) + len(a) + len(n) + len(b), documents=3, hits=3)


@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
def test_documents_longer_than_a_chunk(chunked: Subject, writer: Writer, mode: Mode) -> None:
    subject = chunked.with_mode(mode)
    a, b, q = writer.story(1, 3 * CHUNK), writer.story(2, 2 * CHUNK + 1), writer.story(3, CHUNK + 1)
    assert_reuse(subject.ask(Prompt.of((a,), (b,), q)), 0, documents=2, hits=0)
    assert_reuse(subject.ask(Prompt.of((b,), (a,), q)), len(a) + len(b), documents=2, hits=2)


@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
@pytest.mark.parametrize("length", [30, 59, 62, 64])
def test_link_tokens(chunked: Subject, writer: Writer, mode: Mode, length: int) -> None:
    """S+A+N+B+Q: the cuts fall before, in and behind the heads of A and N."""
    subject = chunked.with_mode(mode).with_link_tokens(4)
    s, q = writer.story(1, length), writer.story(5, 20)
    a, n, b = writer.story(2, 50), writer.story(3, 70), writer.story(4, 40)
    cold = subject.ask(Prompt.of(s, (a,), (n,), q))
    assert_reuse(cold, 0, documents=2, hits=0)
    subject.ask(Prompt.of(s, (b,), (n,), (a,), q))
    full = subject.ask(Prompt.of(s, (n,), (b,), (a,), q))
    assert full.chunk_cache["hits"] == 3
    tails = len(a) + len(b) + len(n) - 3 * 4
    assert full.chunk_cache["cached_tokens"] == tails


def test_more_heads_than_a_chunk_has_tokens(chunked: Subject, writer: Writer) -> None:
    subject = chunked.with_link_tokens(20)
    documents = [(writer.story(i, 21 + i),) for i in range(12)]
    subject.ask(Prompt.of(*documents, writer.story(20, 9)))
    again = subject.ask(Prompt.of(*documents[::-1], writer.story(20, 9)))
    assert again.chunk_cache["hits"] == 12


def test_concurrent_chunked_requests(chunked: Subject, writer: Writer) -> None:
    """Chunks of several prompts that share documents, interleaved with decoding."""
    a, b, q = writer.story(1, 90), writer.story(2, 70), writer.story(3, 8)
    prompts = [
        Prompt.of(writer.story(4 + i, 10 + 13 * i), *([(a,), (b,)][:: 1 - 2 * (i % 2)]), q)
        for i in range(6)
    ]
    for _ in range(2):
        chunked.ask_at_once(prompts, max_new_tokens=8)
