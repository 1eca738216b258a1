"""Documents are reused at any position, and nothing about an answer changes.

Every `ask` compares the log-probabilities with the oracle's; the tests themselves
say how much must have come from the cache.
"""

import pytest

from .prompts import Prompt, Writer
from .subject import Subject, assert_reuse

pytestmark = pytest.mark.server


@pytest.mark.parametrize("length", [7, 300])
def test_order_and_offset(subject: Subject, writer: Writer, length: int) -> None:
    """S+A+B+Q, then S'+B+A+Q' with another length of S, then the same S in another order."""
    s, other_s = writer.story(1, length), writer.story(2, 41)
    a, b = writer.story(3, 60), writer.story(4, 33)
    q, other_q = writer.story(5, 9), writer.story(6, 14)

    assert_reuse(subject.ask(Prompt.of(s, (a,), (b,), q)), 0, documents=2, hits=0)

    warm = subject.ask(Prompt.of(other_s, (b,), (a,), other_q))
    if subject.mode == "preamble":  # another preamble: other documents
        assert_reuse(warm, 0, documents=2, hits=0)
    else:
        assert_reuse(warm, len(a) + len(b), documents=2, hits=2)

    warm = subject.ask(Prompt.of(s, (b,), (a,), other_q))
    assert_reuse(warm, len(s) + len(a) + len(b), documents=2, hits=2)


def test_text_between_documents(subject: Subject, writer: Writer) -> None:
    s, t, q = writer.story(1, 20), writer.story(2, 15), writer.story(3, 8)
    a, b = writer.story(4, 50), writer.story(5, 40)
    assert_reuse(subject.ask(Prompt.of(s, (a,), t, (b,), q)), 0, documents=2, hits=0)
    # `t` stands behind the same segments as before; then it does not.
    same = subject.ask(Prompt.of(s, (a,), t, q))
    assert_reuse(same, len(s) + len(a) + len(t), documents=1, hits=1)
    moved = subject.ask(Prompt.of(s, (b,), t, (a,), q))
    assert_reuse(moved, len(s) + len(a) + len(b), documents=2, hits=2)


def test_repeated_document(subject: Subject, writer: Writer) -> None:
    """Both copies come from one stored document, each at its own place."""
    s, a, q = writer.story(1, 11), writer.story(2, 45), writer.story(3, 10)
    subject.ask(Prompt.of(s, (a,), q))
    twice = subject.ask(Prompt.of(s, (a,), (a,), q))
    assert_reuse(twice, len(s) + 2 * len(a), documents=2, hits=2)


def test_cold_repeated_document(subject: Subject, writer: Writer) -> None:
    s, a, q = writer.story(1, 11), writer.story(2, 45), writer.story(3, 10)
    assert_reuse(subject.ask(Prompt.of(s, (a,), (a,), q)), 0, documents=2, hits=0)
    thrice = subject.ask(Prompt.of(s, (a,), (a,), (a,), q))
    assert_reuse(thrice, len(s) + 3 * len(a), documents=3, hits=3)


@pytest.mark.parametrize("lengths", [(1, 1, 1), (5, 1, 1), (1, 2, 3)], ids=str)
def test_tiny(subject: Subject, writer: Writer, lengths: tuple[int, int, int]) -> None:
    """Documents, preambles and questions of one token."""
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((lengths[0], *lengths[:2], lengths[2])))
    assert a != b
    assert_reuse(subject.ask(Prompt.of(s, (a,), (b,), q)), 0, documents=2, hits=0)
    warm = subject.ask(Prompt.of(s, (b,), (a,), q))
    assert_reuse(warm, len(s) + len(a) + len(b), documents=2, hits=2)


def test_exact_repeat(subject: Subject, writer: Writer) -> None:
    """Everything is cached, one token is computed."""
    prompt = Prompt.of(
        writer.story(1, 20), (writer.story(2, 30),), (writer.story(3, 40),), writer.story(4, 6)
    )
    cold = subject.ask(prompt)
    for _ in range(2):
        warm = subject.ask(prompt)
        assert_reuse(warm, len(prompt) - 1, documents=2, hits=2)
        assert warm.chunk_cache["cached_tokens"] == prompt.num_document_tokens
        assert warm.token_ids == cold.token_ids


def test_prompt_that_starts_with_a_document(subject: Subject, writer: Writer) -> None:
    """In sink mode, its text sees the sink as if it stood at position -1."""
    a, b, q = writer.story(1, 50), writer.story(2, 30), writer.story(3, 9)
    assert_reuse(subject.ask(Prompt.of((a,), (b,), q)), 0, documents=2, hits=0)
    warm = subject.ask(Prompt.of((b,), (a,), q))
    assert_reuse(warm, len(a) + len(b), documents=2, hits=2)
    repeat = subject.ask(Prompt.of((b,), (a,), q))
    assert_reuse(repeat, len(a) + len(b) + len(q) - 1, documents=2, hits=2)


def test_prompt_that_starts_with_the_sink_token(subject: Subject, writer: Writer) -> None:
    """The prompt's own first token is ordinary text, seen by text."""
    s = [subject.sink_token_id, *writer.story(1, 12)]
    a, b, q = writer.story(2, 50), writer.story(3, 30), writer.story(4, 9)
    subject.ask(Prompt.of(s, (a,), (b,), q))
    warm = subject.ask(Prompt.of(s, (b,), (a,), q))
    assert_reuse(warm, len(s) + len(a) + len(b), documents=2, hits=2)


def test_first_writer_leaves_no_trace(subject: Subject, writer: Writer) -> None:
    """A document first seen behind a secret answers as one first seen behind filler."""
    a, q = writer.story(1, 60), writer.encode("What is the secret word? The secret word is")
    secret = writer.encode("The secret word is xylophone. Never tell it to anyone.")
    filler = writer.story(2, len(secret) + 5)
    follow_up = Prompt.of(writer.story(3, 17), (a,), q)
    answers = []
    for history in (secret, filler):
        subject.server.flush_cache()
        subject.ask(Prompt.of(history, (a,), writer.story(4, 6)))
        answers.append(subject.ask(follow_up))
        assert answers[-1].chunk_cache["hits"] == (0 if subject.mode == "preamble" else 1)
    first, second = answers
    assert first.token_ids == second.token_ids
    assert first.logprobs == pytest.approx(second.logprobs, abs=subject.tolerance)


def test_shared_head_of_documents(subject: Subject, writer: Writer) -> None:
    """A document's head is valid on its own; the text behind another document is not."""
    s, head, q = writer.story(1, 10), writer.story(2, 32), writer.story(3, 8)
    a, b = head + writer.story(4, 20), head + writer.story(5, 25)
    subject.ask(Prompt.of(s, (a,), q))
    warm = subject.ask(Prompt.of(s, (b,), q))
    assert_reuse(warm, len(s) + len(head), documents=1, hits=0)
    assert warm.chunk_cache["cached_tokens"] == len(head)


def test_boundaries_of_documents_count(subject: Subject, writer: Writer) -> None:
    """One document of two parts is not two documents: text behind it must not be shared."""
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((10, 16, 16, 12)))
    subject.ask(Prompt.of(s, (a + b,), q))
    split = subject.ask(Prompt.of(s, (a,), (b,), q))
    assert_reuse(split, len(s) + len(a), documents=2, hits=1)
    # Only behind its preamble has a document the KV that the same tokens have as text.
    text = subject.ask(Prompt.of(s + a + b + q))
    same_kv = len(a + b) if subject.mode == "preamble" else 0
    assert text.cached_tokens == len(s) + same_kv


def test_multi_turn_after_documents(subject: Subject, writer: Writer) -> None:
    """Turn 2 reuses turn 1 with its whole answer, as on stock SGLang."""
    turn = Prompt.of(writer.story(1, 12), (writer.story(2, 40),), writer.story(3, 8))
    for seed in (4, 5):
        answer = subject.ask(turn, max_new_tokens=8)
        longer = turn.then(answer.token_ids).then(writer.story(seed, 7))
        warm = subject.ask(longer)
        assert_reuse(warm, len(turn) + len(answer.token_ids), documents=1, hits=1)
        turn = longer.then(warm.token_ids)


def test_flush_forgets_documents(subject: Subject, writer: Writer) -> None:
    prompt = Prompt.of(writer.story(1, 12), (writer.story(2, 40),), writer.story(3, 8))
    for _ in range(2):
        assert_reuse(subject.ask(prompt), 0, documents=1, hits=0)
        assert_reuse(subject.ask(prompt), len(prompt) - 1, documents=1, hits=1)
        subject.server.flush_cache()
