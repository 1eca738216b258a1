"""Kinds of requests: batches, parallel sampling, streams, prompt logprobs, overrides."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from ..engines import Completion
from .prompts import Prompt, Writer
from .subject import GREEDY, Subject, assert_reuse, scored

pytestmark = pytest.mark.server


@pytest.fixture
def prompt(writer: Writer) -> Prompt:
    """S+A+B+Q of 14, 40, 30 and 9 tokens."""
    s, a, b, q = (writer.story(i, n) for i, n in enumerate((14, 40, 30, 9)))
    return Prompt.of(s, (a,), (b,), q)


@pytest.fixture
def sink_subject(make_subject) -> Subject:
    """The server's default mode, which is `sink`."""
    return make_subject("sink")


def stream(url: str, fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with requests.post(f"{url}/generate", json={**fields, "stream": True}, stream=True) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if line.startswith(b"data: {"):
                yield json.loads(line.removeprefix(b"data: "))


def test_segments_are_tokenised_on_their_own(sink_subject: Subject, writer: Writer) -> None:
    """`segments` says the same as the ids of each segment with `document_spans`."""
    texts = ["Read this.", " The lantern is in Lodz.\n\n", "# #--- Belka", "\nWhere is it?"]
    first, a, b, q = map(writer.encode, texts)
    by_ids = sink_subject.ask(Prompt.of(first, (a,), (b,), q))
    kinds = ["text", "document", "document", "text"]
    segments = [{kind: text} for kind, text in zip(kinds, texts, strict=True)]
    output = sink_subject.server.generate(segments=segments, **scored())
    by_text = Completion.of(output)
    assert by_text.token_ids == by_ids.token_ids
    assert by_text.meta_info["prompt_tokens"] == len(first + a + b + q)
    assert_reuse(by_text, len(first + a + b + q) - 1, documents=2, hits=2)


def test_mixed_batch(sink_subject: Subject, prompt: Prompt, writer: Writer) -> None:
    """Prompts with and without documents in one request."""
    segments = [
        [{"text": "The lantern"}],
        [{"text": "Read:"}, {"document": " Belka sold the violin in Lodz."}, {"text": " Who?"}],
        [{"document": " Goran hid the kettle."}, {"text": " Where?"}],
    ]
    outputs = sink_subject.server.generate(segments=segments, **scored())
    assert [Completion.of(o).chunk_cache["documents"] for o in outputs] == [0, 1, 1]
    for parts, output in zip(segments, outputs, strict=True):
        ids = [
            (writer.encode(p["document"]),) if "document" in p else writer.encode(p["text"])
            for p in parts
        ]
        sink_subject.check(Prompt.of(*ids), Completion.of(output))

    plain = Prompt.of(writer.story(5, 30))
    outputs = sink_subject.server.generate(
        input_ids=[prompt.input_ids, plain.input_ids],
        document_spans=[prompt.document_spans, []],
        **scored(),
    )
    for each, output in zip((prompt, plain), outputs, strict=True):
        sink_subject.check(each, Completion.of(output))


def test_parallel_sampling(sink_subject: Subject, prompt: Prompt) -> None:
    """n = 4: SGLang computes the prompt once and then starts four answers from the cache."""
    outputs = sink_subject.server.generate(**prompt.request(), **scored(n=4))
    assert len(outputs) == 4
    for output in outputs:
        completion = Completion.of(output)
        sink_subject.check(prompt, completion)
        assert_reuse(completion, len(prompt) - 1, documents=2, hits=2)


def test_streaming_equals_not_streaming(sink_subject: Subject, prompt: Prompt) -> None:
    whole = sink_subject.ask(prompt, max_new_tokens=6)
    fields = {**prompt.request(), **scored(max_new_tokens=6)}
    *_, last = stream(sink_subject.server.url, fields)
    streamed = Completion.of(last)
    assert (streamed.text, streamed.token_ids) == (whole.text, whole.token_ids)
    sink_subject.check(prompt, streamed)
    assert_reuse(streamed, len(prompt) - 1, documents=2, hits=2)


@pytest.mark.parametrize("start", [0, 30, 54, 83, 92], ids="start={}".format)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_prompt_logprobs(sink_subject: Subject, prompt: Prompt, start: int, warm: bool) -> None:
    """From the first token, inside a document, at its first token, at a boundary, at the last.

    A token's logprob is what the logically previous token predicts.
    """
    if warm:
        sink_subject.ask(prompt)
    output = sink_subject.server.generate(
        **prompt.request(), sampling_params=GREEDY, return_logprob=True, logprob_start_len=start
    )
    returned = output["meta_info"]["input_token_logprobs"]
    ids = prompt.input_ids
    assert [token for _, token, _ in returned] == ids[start:]
    rows = sink_subject.rows(prompt)
    expected = [rows[p - 1, ids[p]].item() if p else None for p in range(start, len(ids))]
    got = [logprob for logprob, _, _ in returned]
    # SGLang leaves the first returned logprob empty: its predecessor was not computed.
    assert got[0] is None or got[0] == pytest.approx(expected[0], abs=sink_subject.tolerance)
    assert got[1:] == pytest.approx(expected[1:], abs=sink_subject.tolerance)
    if warm:
        assert output["meta_info"]["cached_tokens"] <= max(start, 0)


def test_modes_share_text_but_not_documents(sink_subject: Subject, prompt: Prompt) -> None:
    """A request may choose its mode; a document of one mode is not a document of another."""
    s = len(prompt.segments[0][1])
    sink_subject.ask(prompt)
    for mode in ("none", "preamble"):
        other = sink_subject.with_mode(mode)
        assert_reuse(other.ask(prompt), s, documents=2, hits=0)
        assert_reuse(other.ask(prompt), len(prompt) - 1, documents=2, hits=2)
    assert_reuse(sink_subject.ask(prompt), len(prompt) - 1, documents=2, hits=2)


@pytest.mark.parametrize("fields", [{"extra_key": "a"}, {"extra_key": "b"}], ids=str)
def test_extra_key_isolates_documents(
    sink_subject: Subject, prompt: Prompt, fields: dict[str, str]
) -> None:
    """Every document's key holds the tenant, not the first one's alone."""
    sink_subject.ask(prompt)
    for hits in (0, 2):
        output = sink_subject.server.generate(**prompt.request(), **fields, **scored())
        completion = Completion.of(output)
        sink_subject.check(prompt, completion)
        assert completion.chunk_cache["hits"] == hits


def test_concurrent_cold_requests(sink_subject: Subject, writer: Writer) -> None:
    """Twelve prompts bring one unseen document at once, each at another place."""
    a, q = writer.story(1, 60), writer.story(2, 6)
    prompts = [Prompt.of(writer.story(3 + i, 5 + 4 * i), (a,), q) for i in range(12)]
    for completion in sink_subject.ask_at_once(prompts):
        assert completion.chunk_cache["documents"] == 1
    # One copy was kept, and it is right.
    again = sink_subject.ask_at_once([Prompt.of(writer.story(20, 9), (a,), q)])
    assert_reuse(again[0], len(a), documents=1, hits=1)


def test_cold_document_is_computed_once(sink_subject: Subject, writer: Writer) -> None:
    """Requests that miss a long document wait for the one that computes it."""
    a, q = writer.story(1, 400), writer.story(2, 6)
    prompts = [Prompt.of(writer.story(3 + i, 5 + 4 * i), (a,), q) for i in range(6)]
    completions = sink_subject.ask_at_once(prompts)
    assert sorted(c.chunk_cache["cached_tokens"] for c in completions) == [0] + 5 * [len(a)]


def test_no_documents_reports_as_stock(sink_subject: Subject, writer: Writer) -> None:
    assert "chunk_cache" not in sink_subject.ask(Prompt.of(writer.story(1, 20))).meta_info
