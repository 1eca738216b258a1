"""Heads of documents are computed with the prompt, the rest comes from the cache.

Every `ask` compares the log-probabilities with the oracle's.
"""

from collections.abc import Callable

import pytest

from ..engines import Completion
from ..oracle import Mode
from .prompts import Prompt, Writer
from .subject import GREEDY, Subject, assert_reuse, scored

pytestmark = pytest.mark.server

MODES: list[Mode] = ["sink", "none", "preamble"]
K = 4


@pytest.fixture(params=MODES)
def subject(make_subject: Callable[..., Subject], request: pytest.FixtureRequest) -> Subject:
    """The server of the default mode, asked for one mode or another."""
    return make_subject("sink").with_mode(request.param).with_link_tokens(K)


@pytest.mark.parametrize("k", [1, K])
def test_order_and_offset(subject: Subject, writer: Writer, k: int) -> None:
    """Cold; in another order; in the same order again; behind another text."""
    subject = subject.with_link_tokens(k)
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((30, 60, 33, 9)))
    tails = len(a) + len(b) - 2 * k
    assert_reuse(subject.ask(Prompt.of(s, (a,), (b,), q)), 0, documents=2, hits=0)
    other = writer.story(5, 14)
    # In preamble mode the first document's head is known: it stands behind the preamble.
    known = k if subject.mode == "preamble" else 0
    warm = subject.ask(Prompt.of(s, (b,), (a,), other))
    assert_reuse(warm, len(s) + known + tails, documents=2, hits=2)
    again = subject.ask(Prompt.of(s, (b,), (a,), q))
    assert_reuse(again, len(s) + 2 * k + tails, documents=2, hits=2)
    if subject.mode != "preamble":
        moved = subject.ask(Prompt.of(writer.story(6, 41), (b,), (a,), q))
        assert_reuse(moved, tails, documents=2, hits=2)


def test_requests_of_any_k_share_tails(subject: Subject, writer: Writer) -> None:
    s, a, q = writer.story(1, 20), writer.story(2, 50), writer.story(3, 8)
    for i, k in enumerate((K, 0, 1, 7, 49)):
        # Text between keeps the head from being known as part of the first text.
        prompt = Prompt.of(s, (a,), writer.story(5 + i, 6), (a,), q)
        completion = subject.with_link_tokens(k).ask(prompt)
        assert completion.chunk_cache["hits"] == (2 if i else 0)
        if i:
            assert completion.chunk_cache["cached_tokens"] == 2 * (len(a) - k)


def test_document_that_k_covers_is_text(subject: Subject, writer: Writer) -> None:
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((12, 20, 40, 9)))
    prompt = Prompt.of(s, (a,), (b,), q)
    for k in (20, 40, 200):
        subject.with_link_tokens(k).ask(prompt)
    plain = subject.ask(Prompt.of(s + a + b + q))
    assert plain.cached_tokens == len(prompt) - 1  # all of it was text
    mixed = subject.with_link_tokens(20).ask(Prompt.of(writer.story(6, 5), (b,), (a,), q))
    assert mixed.chunk_cache["documents"] == 2


@pytest.mark.parametrize("first", [True, False], ids=["document first", "text first"])
def test_repeated_document(subject: Subject, writer: Writer, first: bool) -> None:
    s, a, q = writer.story(1, 11), writer.story(2, 45), writer.story(3, 10)
    lead = [] if first else [s]
    assert_reuse(subject.ask(Prompt.of(*lead, (a,), (a,), q)), 0, documents=2, hits=0)
    thrice = subject.ask(Prompt.of(writer.story(4, 9), (a,), (a,), q, (a,), q))
    if subject.mode != "preamble":
        assert_reuse(thrice, 3 * (len(a) - K), documents=3, hits=3)


def test_documents_that_begin_alike(subject: Subject, writer: Writer) -> None:
    """The head of one is found where the other lies, or a part of it is."""
    s, a, q = writer.story(1, 11), writer.story(2, 45), writer.story(3, 10)
    subject.ask(Prompt.of(s, (a,), q))
    for shared in (2, K, 20):
        subject.ask(Prompt.of(s, (a[:shared] + writer.story(5, 30),), (a,), q))


def test_mixed_batch(make_subject: Callable[..., Subject], writer: Writer) -> None:
    """One pass with prompts of several K, without documents, and with the same documents."""
    subject = make_subject("sink")
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((12, 40, 30, 9)))
    prompts = [
        Prompt.of(s, (a,), (b,), q),
        Prompt.of((b,), (a,), q),
        Prompt.of(writer.story(7, 25), (a,), q),
        Prompt.of(writer.story(8, 25), (b,), q, (a,), q),
    ]
    numbers = [K, 3, 0, 1]
    for _ in range(2):
        outputs = subject.server.generate(
            input_ids=[p.input_ids for p in prompts],
            document_spans=[p.document_spans for p in prompts],
            chunk_link_tokens=numbers,
            **scored(),
        )
        for k, prompt, output in zip(numbers, prompts, outputs, strict=True):
            subject.with_link_tokens(k).check(prompt, Completion.of(output))


@pytest.mark.parametrize("start", [15, 18], ids="start={}".format)
def test_prompt_logprobs(subject: Subject, writer: Writer, start: int) -> None:
    """From within a head, and from behind it; each from what stands logically before it."""
    s, a, q = writer.story(1, 14), writer.story(2, 40), writer.story(3, 9)
    prompt = Prompt.of(s, (a,), q)
    subject.ask(prompt)
    output = subject.server.generate(
        **subject.fields(prompt),
        sampling_params=GREEDY,
        return_logprob=True,
        logprob_start_len=start,
    )
    rows, ids = subject.rows(prompt), prompt.input_ids
    expected = [rows[p - 1, ids[p]].item() for p in range(start + 1, len(ids))]
    got = [logprob for logprob, _, _ in output["meta_info"]["input_token_logprobs"]]
    assert got[1:] == pytest.approx(expected, abs=subject.tolerance)


def test_next_turn(subject: Subject, writer: Writer) -> None:
    """The answer is reused, and a new document behind it gets its head."""
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((12, 40, 30, 9)))
    first = Prompt.of(s, (a,), q)
    answer = subject.ask(first, max_new_tokens=8).token_ids
    turn = Prompt.of(s, (a,), q + answer[:-1], (b,), writer.story(5, 7))
    assert_reuse(subject.ask(turn), len(first) + len(answer) - 1, documents=2, hits=1)


def test_concurrent_cold_requests(subject: Subject, writer: Writer) -> None:
    a, b, q = writer.story(1, 60), writer.story(2, 35), writer.story(3, 6)
    s = writer.story(20, 5)
    prompts = [Prompt.of(s + writer.story(4 + i, 4 * i), (a,), (b,), q) for i in range(6)]
    subject.ask_at_once(prompts, max_new_tokens=6)
    subject.with_link_tokens(0).ask_at_once(prompts, max_new_tokens=6)
