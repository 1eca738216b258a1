"""Families of models: documents beyond position 8192 equal the dense oracle.

Each family is a tiny random checkpoint, served by SGLang's scheduler and, for the
oracle, run by Hugging Face's implementation of the same architecture.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ..e2e.prompts import Prompt
from ..oracle import Oracle, Token, lay_out
from .schedulers import Schedulers
from .shapes import BOS, SERVED, VOCAB_SIZE, Family

pytestmark = pytest.mark.server

NUM_SCORED = 24
TOP_LOGPROBS = 5
FAR_ENOUGH = 8192
ULP = 2.0**-24
"""Float32 holds the angle of position p to p * ULP radians, whoever computes it."""


def text(seed: int, num_tokens: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(3, VOCAB_SIZE) for _ in range(num_tokens)]


A, B = text(1, 120), text(2, 33)
FILLER = [(text(10 + i, 520),) for i in range(16)]
PLAIN = Prompt.of(text(3, 300))
NEAR = Prompt.of(text(4, 7), (A,), (B,), text(5, 1 + NUM_SCORED))
FAR = Prompt.of(text(6, 9), *FILLER, (B,), (A,), text(7, 1 + NUM_SCORED))
PROMPTS = (PLAIN, NEAR, FAR)


def request(prompt: Prompt) -> dict[str, Any]:
    return {
        "input_ids": prompt.input_ids,
        "document_spans": prompt.document_spans,
        "chunk_context": "sink",
        "max_new_tokens": 3,
        "logprob_start_len": len(prompt) - 1 - NUM_SCORED,
        "top_logprobs_num": TOP_LOGPROBS,
    }


def dense(prompt: Prompt) -> list[Token]:
    return lay_out([(kind, list(ids)) for kind, ids in prompt.segments], "sink", BOS)


def misplaced(tokens: list[Token]) -> list[Token]:
    """The last document, and the sink before it, one position too far."""
    last = max(token.chain for token in tokens)
    return [
        replace(token, position=token.position + 1) if token.chain == last else token
        for token in tokens
    ]


def error_of(answer: Mapping[str, Any], rows: torch.Tensor, prompt: Prompt) -> float:
    """Largest difference of a logprob from the oracle's rows: of the last tokens of the
    prompt, and of the likeliest ones at each generated token."""
    asked = prompt.input_ids[-NUM_SCORED:]
    given = answer["input_logprobs"][1:]
    assert len(given) == NUM_SCORED and len(rows) == NUM_SCORED + len(answer["token_ids"])
    errors = [
        abs(row[token].item() - value)
        for row, token, value in zip(rows, asked, given, strict=False)
    ]
    tops = answer["top_logprobs"]
    assert len(tops) == len(answer["token_ids"]) == 3
    for row, top in zip(rows[NUM_SCORED:], tops, strict=True):
        assert len(top) == TOP_LOGPROBS
        errors += [abs(row[int(token)].item() - value) for token, value in top.items()]
    return max(errors)


@pytest.fixture(params=SERVED, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


def test_documents_far_from_the_start(
    family: Family, schedulers: Schedulers, tmp_path: Path
) -> None:
    family.save(tmp_path)
    answers = schedulers.serve(tmp_path, [request(p) for p in PROMPTS])["answers"]
    oracle = Oracle(family.oracle_model(tmp_path))

    def error(number: int, place: Any = lambda tokens: tokens) -> float:
        prompt, answer = PROMPTS[number], answers[number]
        tokens = place(dense(prompt.then(answer["token_ids"][:-1])))
        rows = oracle.logprobs_of(tokens, len(prompt) - 1 - NUM_SCORED)
        return error_of(answer, rows, prompt)

    stock = error(0)
    assert stock < 0.01, "stock SGLang itself is far from the oracle"
    for number, hits in ((1, 0), (2, 2)):
        prompt, answer = PROMPTS[number], answers[number]
        # A few scores of standard deviation 3, each off by what its angle is.
        tolerance = 2 * stock + 4 * len(prompt) * ULP
        assert error(number) <= tolerance
        expected = {
            "documents": len(prompt.document_spans),
            "hits": hits,
            "cached_tokens": hits and len(A) + len(B),
        }
        assert answer["chunk_cache"] == expected
        assert answer["cached_tokens"] == expected["cached_tokens"]
    assert FAR.document_spans[-2][0] > FAR_ENOUGH
    assert error(2, misplaced) > 20 * tolerance, "a wrong offset would not be seen"
