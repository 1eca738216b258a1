"""What is asked of a server for one question, and what is made of the answers."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sglang_lazy.evaluate.client import RequestRefused
from sglang_lazy.evaluate.measure import Measurement
from sglang_lazy.evaluate.modes import parse_mode
from sglang_lazy.evaluate.preflight import knows_link_tokens, refusal

from .scripted import ScriptedClient, examiner, examples, text_of


def measure(
    client: ScriptedClient, mode: str, full: Measurement | None = None, **settings: Any
) -> Measurement:
    (example,) = examples(1)
    return asyncio.run(examiner(client, **settings).measure(example, parse_mode(mode), full))


def test_three_requests_in_a_mode() -> None:
    client = ScriptedClient()
    measurement = measure(client, "sink", max_new_tokens=9, stop=("\n",), top_logprobs=5)
    answer, score, reordered = client.asked
    assert text_of(answer) == "a0b0.q0? "
    assert answer["document_spans"] == [[0, 2], [2, 4]]
    assert answer["chunk_context"] == "sink"
    assert answer["sampling_params"] == {"temperature": 0, "max_new_tokens": 9, "stop": ["\n"]}
    assert text_of(score) == "a0b0.q0? b0"
    assert (score["logprob_start_len"], score["top_logprobs_num"]) == (8, 5)
    assert text_of(reordered) == "b0a0.q0? "
    assert measurement.answer.text == "b0"
    assert measurement.answer.document_tokens == 4
    assert (measurement.contains, measurement.exact_match, measurement.f1) == (1, 1, 1)
    assert (measurement.nll, measurement.answer_tokens) == (1.0, 2)
    assert (measurement.agrees, measurement.reordered_contains) == (0, 0)
    assert measurement.kl is None


def test_full_attention_sends_the_same_ids_without_spans() -> None:
    lazy, full = ScriptedClient(), ScriptedClient()
    measure(lazy, "none")
    measurement = measure(full, "full")
    assert [f["input_ids"] for f in full.asked] == [f["input_ids"] for f in lazy.asked]
    assert not any("document_spans" in f or "chunk_context" in f for f in full.asked)
    assert measurement.kl == 0
    assert measurement.next_token is not None
    assert measurement.answer.document_tokens == 0


@pytest.mark.parametrize("mode", ["full", "sink", "no-documents"])
def test_an_adapter_answers_every_request(mode: str) -> None:
    client = ScriptedClient()
    measure(client, mode, lora_path="tuned")
    assert {fields.get("lora_path") for fields in client.asked} == {"tuned"}
    subject = examiner(client, lora_path="tuned")
    assert asyncio.run(refusal(subject, parse_mode(mode))) is None
    assert {fields.get("lora_path") for fields in client.asked} == {"tuned"}


def test_no_documents() -> None:
    client = ScriptedClient()
    measurement = measure(client, "no-documents")
    assert [text_of(f) for f in client.asked] == [".q0? ", ".q0? b0"]
    assert measurement.reordered is None


def test_divergence_is_from_full_attention() -> None:
    full = measure(ScriptedClient(), "full")
    measurement = measure(ScriptedClient(), "none", full)
    p, q = [math.exp(-0.5), math.exp(-1.25)], [math.exp(-0.5), math.exp(-1.5)]
    p.append(1 - sum(p))
    q.append(1 - sum(q))
    expected = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert measurement.kl == pytest.approx(expected)
    assert measurement.rest == pytest.approx(p[-1])


def test_what_is_judged_may_be_the_end_of_an_answer() -> None:
    (example,) = examples(1)
    example = replace(example, answers=("0",))
    client = ScriptedClient()
    for after, exact in (("", 0), ("b", 1), ("zzz", 0)):
        subject = examiner(client, answer_after=after)
        measurement = asyncio.run(subject.measure(example, parse_mode("none")))
        assert measurement.exact_match == exact
        assert measurement.answer.text == "b0"


def test_reordering_is_another_order_and_depends_on_the_seed_only() -> None:
    many = examples(6)
    for example in many:
        documents = tuple(d for e in many for d in e.documents)
        example = replace(example, documents=documents)
        subject = examiner(ScriptedClient(), seed=3)
        order = subject.reordered(example)
        assert list(order) != list(documents)
        assert sorted(order, key=str) == sorted(documents, key=str)
        assert examiner(ScriptedClient(), seed=3).reordered(example) == order
        assert examiner(ScriptedClient(), seed=4).reordered(example) != order


def test_measurements_survive_json() -> None:
    for mode in ("full", "sink", "no-documents"):
        measurement = measure(ScriptedClient(), mode)
        assert Measurement.of_json(measurement.to_json()) == measurement


def test_server_that_ignores_documents() -> None:
    client = ScriptedClient()
    client.sees_documents = False
    with pytest.raises(RequestRefused, match="0 of the prompt's 2 documents"):
        measure(client, "sink")


@pytest.mark.parametrize("knows", [True, False])
def test_link_modes_need_a_server_that_knows_them(knows: bool) -> None:
    client = ScriptedClient()
    client.knows_link_tokens = knows
    assert asyncio.run(knows_link_tokens(client)) == knows
    subject = replace(examiner(client), knows_link_tokens=knows)
    why = asyncio.run(refusal(subject, parse_mode("sink+link:4")))
    assert (why is None) == knows
    if why:
        assert "chunk_link_tokens" in why
    else:
        assert client.asked[-1]["chunk_link_tokens"] == 4
    assert asyncio.run(refusal(subject, parse_mode("sink"))) is None


def test_aborted_requests_are_failures() -> None:
    class Aborting(ScriptedClient):
        async def generate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
            output = await super().generate(fields)
            output["meta_info"]["finish_reason"] = {"type": "abort", "message": "out of memory"}
            return output

    with pytest.raises(RequestRefused, match="out of memory"):
        measure(Aborting(), "full")


def test_refusal_names_what_the_server_says() -> None:
    client = ScriptedClient()
    client.error = RequestRefused("no sink token")
    assert asyncio.run(refusal(examiner(client), parse_mode("sink"))) == "no sink token"
