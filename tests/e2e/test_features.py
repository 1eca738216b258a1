"""Every feature of a request, with documents: as the oracle has it, or refused in one sentence."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from sglang.srt.sampling.custom_logit_processor import DisallowedTokensLogitsProcessor

from ..engines import Server
from ..oracle import Oracle
from .clients import FIRST, QUESTION, SECOND
from .prompts import Prompt, Writer
from .subject import GREEDY, Subject

pytestmark = pytest.mark.server

SEGMENTS = [{"text": "Read:"}, {"document": FIRST}, {"document": SECOND}, {"text": QUESTION}]
LENGTH = 8


@pytest.fixture
def subject(tenants: Server, oracle: Oracle, tokenizer: Any, tolerance: float) -> Subject:
    return Subject(tenants, oracle, tokenizer.bos_token_id, tolerance, "sink")


@pytest.fixture
def prompt(writer: Writer) -> Prompt:
    """That of ``SEGMENTS``."""
    ids = [writer.encode(*segment.values()) for segment in SEGMENTS]
    return Prompt.of(*((i,) if "document" in s else i for i, s in zip(ids, SEGMENTS, strict=True)))


def ask(server: Server, sampling: Mapping[str, Any] | None = None, **fields: Any) -> Any:
    params = {**GREEDY, "max_new_tokens": LENGTH, "ignore_eos": False, **(sampling or {})}
    return server.generate(segments=SEGMENTS, sampling_params=params, **fields)


def token_ids(output: Any) -> list[int]:
    return output["output_ids"]


# What a prompt computes.


@pytest.mark.parametrize("start", [0, 9, 40], ids="start={}".format)
def test_prompt_top_logprobs(subject: Subject, prompt: Prompt, start: int) -> None:
    """Of the first token on, from inside a document, and from behind them: the k best, and
    those of given ids, also in SGLang's flat form."""
    ids, wanted = prompt.input_ids, [5, 300, 1000]
    fields = {
        **prompt.request(),
        "sampling_params": GREEDY,
        "return_logprob": True,
        "logprob_start_len": start,
        "top_logprobs_num": 3,
    }
    for _ in range(2):  # cold, then with whatever may come from the cache
        meta = subject.server.generate(**fields, token_ids_logprob=wanted)["meta_info"]
        rows = subject.rows(prompt)
        for name, expected_ids in (("top", None), ("token_ids", wanted)):
            returned = meta[f"input_{name}_logprobs"]
            assert len(returned) == len(ids) - start
            for p, entries in enumerate(returned[1:], start + 1):
                row = rows[p - 1]
                expected = row.topk(3).values if expected_ids is None else row[expected_ids]
                got = [logprob for logprob, _, _ in entries]
                assert got == pytest.approx(expected.tolist(), abs=subject.tolerance)
                if expected_ids is not None:
                    assert [token for _, token, _ in entries] == expected_ids
    flat = subject.server.generate(**fields, return_flat_raw_top_logprobs=True)["meta_info"]
    nested = [e for entries in meta["input_top_logprobs"] if entries for e in entries]
    (values,) = (v for k, v in flat.items() if k.startswith("input") and "top" in k and "val" in k)
    flattened = torch.tensor(values).flatten().tolist()
    assert flattened[-len(nested) :] == pytest.approx([e[0] for e in nested], abs=subject.tolerance)


# How a token is chosen. Greedy, so that the oracle knows the answer.


def penalised(subject: Subject, prompt: Prompt, tokens: list[int], penalty: Any) -> None:
    """Each token is the best of the oracle's row, as the penalty changes it.

    SGLang counts a token one step late, and first the prompt's last one.
    """
    counted = [prompt.input_ids[-1], *tokens]
    rows = subject.rows(prompt.then(tokens[:-1]), start=len(prompt) - 1)
    for i, (row, token) in enumerate(zip(rows, tokens, strict=True)):
        changed = penalty(row.clone(), counted[:i])
        assert changed.max() - changed[token] <= 2 * subject.tolerance


def frequency(row: torch.Tensor, before: list[int]) -> torch.Tensor:
    for token in before:
        row[token] -= 1.5
    return row


def presence(row: torch.Tensor, before: list[int]) -> torch.Tensor:
    row[list(set(before))] -= 2
    return row


def bias(row: torch.Tensor, before: list[int]) -> torch.Tensor:
    row[[28, 284]] += torch.tensor([3.0, -100.0])
    return row


def unchanged(row: torch.Tensor, before: list[int]) -> torch.Tensor:
    return row


def disallowed(row: torch.Tensor, before: list[int]) -> torch.Tensor:
    row[[28, 284, 216]] = -torch.inf
    return row


CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "greedy": ({}, {}, unchanged),
    "frequency_penalty": ({"frequency_penalty": 1.5}, {}, frequency),
    "presence_penalty": ({"presence_penalty": 2}, {}, presence),
    "logit_bias": ({"logit_bias": {"28": 3.0, "284": -100.0}}, {}, bias),
    "top_k": ({"temperature": 1.3, "top_k": 1}, {}, unchanged),
    "min_p": ({"temperature": 1.0, "min_p": 0.9999}, {}, unchanged),
    "top_p": ({"temperature": 1.0, "top_p": 1e-6}, {}, unchanged),
    "custom_logit_processor": (
        {"custom_params": {"token_ids": [28, 284, 216]}},
        {"custom_logit_processor": DisallowedTokensLogitsProcessor.to_str()},
        disallowed,
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choice_of_tokens(subject: Subject, prompt: Prompt, name: str) -> None:
    sampling, fields, penalty = CHOICES[name]
    cold, warm = (
        token_ids(ask(subject.server, {**sampling, "ignore_eos": True}, **fields)) for _ in range(2)
    )
    assert len(cold) == len(warm) == LENGTH
    for tokens in [cold] if cold == warm else [cold, warm]:  # near ties may go either way
        penalised(subject, prompt, tokens, penalty)


def test_repetition_penalty(subject: Subject) -> None:
    """On logits, which the oracle has up to a constant: the answer is another, cold and warm."""
    answers = [token_ids(ask(subject.server, {"repetition_penalty": 2})) for _ in range(2)]
    assert answers[0] == answers[1] != token_ids(ask(subject.server))


def test_min_new_tokens(subject: Subject, tokenizer: Any) -> None:
    end = tokenizer.eos_token_id
    for number in (0, 3):
        sampling = {"logit_bias": {str(end): 1000.0}, "min_new_tokens": number}
        output = ask(subject.server, sampling)
        assert output["meta_info"]["completion_tokens"] == number + 1
        assert token_ids(output)[-1] == end


GRAMMARS = {
    "regex": ("(Belka|Goran)( sold| hid)", "(Belka|Goran)( sold| hid)"),
    "ebnf": ('root ::= "yes" | "no"', "yes|no"),
    "json_schema": (
        json.dumps(
            {
                "type": "object",
                "properties": {"who": {"enum": ["Belka", "Goran"]}},
                "required": ["who"],
            }
        ),
        r'\{\s*"who"\s*:\s*"(Belka|Goran)"\s*\}',
    ),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_structured_output(subject: Subject, writer: Writer, prompt: Prompt, name: str) -> None:
    """Matches, cold and warm, beside a request without a grammar; logprobs are the oracle's."""
    grammar, pattern = GRAMMARS[name]
    params = {**GREEDY, "ignore_eos": False, "max_new_tokens": 32}
    for _ in range(2):
        free, bound = subject.server.generate(
            segments=[SEGMENTS, SEGMENTS],
            sampling_params=[GREEDY, {**params, name: grammar}],
            return_logprob=True,
        )
        assert re.fullmatch(pattern, bound["text"]), bound["text"]
        rows = subject.rows(prompt.then(token_ids(free)[:-1]), start=len(prompt) - 1)
        assert token_ids(free) == rows.argmax(dim=-1).tolist()


def test_bad_grammar(subject: Subject) -> None:
    params = {**GREEDY, "regex": "(("}
    response = subject.server.post("/generate", segments=SEGMENTS, sampling_params=params)
    assert response.status_code == 400, response.text
    ask(subject.server)


# Where an answer ends.


def test_stops(subject: Subject) -> None:
    """Each stop cuts the greedy answer where it occurs first."""
    whole = ask(subject.server, {"ignore_eos": True})
    tokens = token_ids(whole)
    third = tokens[2]
    by_id = ask(subject.server, {"stop_token_ids": [third]})
    assert token_ids(by_id) == tokens[: tokens.index(third) + 1]
    word = whole["text"].strip()[:3]
    for stop in ({"stop": word}, {"stop": ["none such", word]}, {"stop_regex": re.escape(word)}):
        stopped = ask(subject.server, stop)
        assert stopped["meta_info"]["finish_reason"]["type"] == "stop"
        assert stopped["text"] == whole["text"][: whole["text"].index(word)]
    kept = ask(subject.server, {"stop": word, "no_stop_trim": True})
    assert kept["text"].endswith(word)


# What changes nothing.

WITHOUT_EFFECT: dict[str, dict[str, Any]] = {
    "bootstrap": {"bootstrap_port": 1, "bootstrap_room": 2},
    "routed_dp_rank": {"routed_dp_rank": 0},
    "data_parallel_rank": {"data_parallel_rank": 0},
    "return_prompt_token_ids": {"return_prompt_token_ids": True},
    "return_entropy": {"return_entropy": True},
    "return_text_in_logprobs": {"return_logprob": True, "return_text_in_logprobs": True},
    "rid": {"rid": "one-of-ours"},
    "session_id": {"session_id": "x"},
    "no_logs": {"no_logs": True, "log_metrics": False},
    "require_reasoning": {"require_reasoning": False},
}


def test_fields_without_effect(subject: Subject, prompt: Prompt) -> None:
    expected = token_ids(ask(subject.server))
    for name, fields in WITHOUT_EFFECT.items():
        output = ask(subject.server, **fields)
        assert token_ids(output) == expected, name
        assert output["meta_info"]["chunk_cache"]["hits"] == 2, name
        if name == "return_prompt_token_ids":
            assert output["prompt_token_ids"] == prompt.input_ids
    for sampling in ({"skip_special_tokens": False}, {"spaces_between_special_tokens": False}):
        assert token_ids(ask(subject.server, sampling)) == expected


def test_batch_forms(subject: Subject, prompt: Prompt) -> None:
    """Each prompt of a batch has its own parameters; ``n`` goes for all."""
    sampling = [
        {**GREEDY, "logit_bias": {"28": 3.0, "284": -100.0}},
        {**GREEDY, "frequency_penalty": 1.5},
        GREEDY,
    ]
    outputs = subject.server.generate(
        segments=[SEGMENTS] * 3,
        sampling_params=sampling,
        return_logprob=[True, False, True],
        top_logprobs_num=[1, 0, 2],
        logprob_start_len=[0, -1, -1],
    )
    for output, penalty in zip(outputs, (bias, frequency, unchanged), strict=True):
        penalised(subject, prompt, token_ids(output), penalty)
    first, second, third = (output["meta_info"] for output in outputs)
    assert len(first["input_top_logprobs"]) == len(prompt)
    assert not second.get("output_top_logprobs")
    assert len(third["output_top_logprobs"][0]) == 2
    outputs = subject.server.generate(
        segments=[SEGMENTS] * 2,
        sampling_params=[{**GREEDY, "n": 2}] * 2,
        return_logprob=True,
        top_logprobs_num=2,
    )
    assert len(outputs) == 4
    for output in outputs:
        penalised(subject, prompt, token_ids(output), unchanged)
        assert len(output["meta_info"]["output_top_logprobs"][0]) == 2


def test_echo(subject: Subject, prompt: Prompt) -> None:
    """Completions give the prompt back, with its logprobs."""
    fields = {"model": "base", "segments": SEGMENTS, "max_tokens": 2, "temperature": 0}
    response = subject.server.post("/v1/completions", **fields, echo=True, logprobs=1)
    assert response.status_code == 200, response.text
    choice = response.json()["choices"][0]
    text = "".join(value for segment in SEGMENTS for value in segment.values())
    assert choice["text"].startswith(text)
    rows = subject.rows(prompt)
    got = choice["logprobs"]["token_logprobs"][1 : len(prompt)]
    expected = [rows[p - 1, token].item() for p, token in enumerate(prompt.input_ids) if p]
    assert got == pytest.approx(expected, abs=subject.tolerance)


# What is refused.

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "input_embeds": ({"input_embeds": [[0.0] * 576] * 4}, "input_embeds cannot be combined"),
    "image_data": ({"image_data": "x"}, "image_data cannot be combined"),
    "session_params": ({"session_params": {"id": "x"}}, "session_params cannot be combined"),
    "return_hidden_states": ({"return_hidden_states": True}, "return_hidden_states cannot be"),
    "return_routed_experts": ({"return_routed_experts": True}, "return_routed_experts cannot"),
    "token_ids_logprob": (
        {"return_logprob": True, "token_ids_logprob": [10**7]},
        "out-of-vocabulary token id",
    ),
    "negative token id": (
        {"return_logprob": True, "token_ids_logprob": [-1]},
        "out-of-vocabulary token id",
    ),
    "nested token ids": (
        {"return_logprob": True, "token_ids_logprob": [[1], [2]]},
        "token_ids_logprob must be a flat list",
    ),
    "unknown adapter": ({"lora_path": "nobody"}, "nobody"),
    "routed_dp_rank": ({"routed_dp_rank": 5}, "routed_dp_rank"),
}


def test_refused(subject: Subject) -> None:
    """One sentence each, and the server goes on."""
    for name, (fields, sentence) in REFUSED.items():
        response = subject.server.post(
            "/generate", segments=SEGMENTS, sampling_params=GREEDY, **fields
        )
        assert response.status_code == 400, (name, response.text)
        assert sentence in response.text, (name, response.text)
    ask(subject.server)


def test_embeddings_take_no_documents(subject: Subject) -> None:
    """They need another model; asked of this one they are refused as by stock SGLang."""
    for path, fields in {
        "/v1/embeddings": {"model": "base", "input": "Hi"},
        "/v1/rerank": {"query": "Who?", "documents": [FIRST, SECOND]},
        "/encode": {"text": "Hi"},
    }.items():
        response = subject.server.post(path, **fields)
        assert response.status_code == 400, (path, response.text)
    ask(subject.server)
