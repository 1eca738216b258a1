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

from ..e2e.prompts import Prompt
from ..oracle import CachingOracle, Token, lay_out
from .schedulers import Schedulers
from .shapes import BOS, SERVED, VOCAB_SIZE, Family

pytestmark = pytest.mark.server

NUM_SCORED = 24
NUM_GENERATED = 3
TOP_LOGPROBS = 5
FAR_ENOUGH = 8192

FP32_NOISE = 2e-4
ULP = 2.0**-24
"""Float32 holds the angle of position p to about p * ULP radians, whoever computes it."""


def text(seed: int, num_tokens: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(3, VOCAB_SIZE) for _ in range(num_tokens)]


A, B = text(1, 120), text(2, 33)
FILLER = [(text(10 + i, 520),) for i in range(16)]
PLAIN = Prompt.of(text(3, 300))
NEAR = Prompt.of(text(4, 7), (A,), (B,), text(5, 1 + NUM_SCORED))
FAR = Prompt.of(text(6, 9), *FILLER, (B,), (A,), text(7, 1 + NUM_SCORED))


def request(prompt: Prompt) -> dict[str, Any]:
    return {
        "input_ids": prompt.input_ids,
        "document_spans": prompt.document_spans,
        "chunk_context": "sink",
        "max_new_tokens": NUM_GENERATED,
        "logprob_start_len": len(prompt) - 1 - NUM_SCORED,
        "top_logprobs_num": TOP_LOGPROBS,
    }


def misplaced(tokens: list[Token]) -> list[Token]:
    """The last document, and the sink before it, one position too far."""
    last = max(token.chain for token in tokens)
    return [
        replace(token, position=token.position + 1) if token.chain == last else token
        for token in tokens
    ]


class FarOracle(CachingOracle):
    """The dense oracle for long prompts, of which two share nearly all."""

    def error(self, prompt: Prompt, answer: Mapping[str, Any], is_misplaced: bool = False) -> float:
        """Largest difference of a logprob that the answer has: of the last tokens of the
        prompt, and of the likeliest ones at each generated token."""
        full = prompt.then(answer["token_ids"][:-1])
        tokens = lay_out([(kind, list(ids)) for kind, ids in full.segments], "sink", BOS)
        if is_misplaced:
            tokens = misplaced(tokens)
        rows = self.last_logprobs(tokens, NUM_SCORED + NUM_GENERATED)
        given, tops = answer["input_logprobs"][1:], answer["top_logprobs"]
        errors = [
            abs(row[token].item() - value)
            for row, token, value in zip(
                rows[:NUM_SCORED], prompt.input_ids[-NUM_SCORED:], given, strict=True
            )
        ]
        for row, top in zip(rows[NUM_SCORED:], tops, strict=True):
            assert len(top) == TOP_LOGPROBS
            errors += [abs(row[int(token)].item() - value) for token, value in top.items()]
        return max(errors)


@pytest.mark.parametrize("family", SERVED, ids=lambda family: family.name)
def test_documents_far_from_the_start(
    family: Family, schedulers: Schedulers, tmp_path: Path
) -> None:
    family.save(tmp_path)
    requests = [request(prompt) for prompt in (PLAIN, NEAR, FAR)]
    plain, near, far = schedulers.serve(tmp_path, requests)["answers"]
    oracle = FarOracle(family.oracle_model(tmp_path))

    stock_error = oracle.error(PLAIN, plain)
    assert stock_error < 0.01, "stock SGLang itself is far from the oracle"

    def tolerance(prompt: Prompt) -> float:
        # A few scores of standard deviation 3, each off by what its angle is.
        return max(2 * stock_error, FP32_NOISE) + 4 * len(prompt) * ULP

    assert near["chunk_cache"] == {"documents": 2, "hits": 0, "cached_tokens": 0}
    assert oracle.error(NEAR, near) <= tolerance(NEAR)

    assert FAR.document_spans[-2][0] > FAR_ENOUGH
    found = len(A) + len(B)
    assert far["chunk_cache"] == {"documents": 18, "hits": 2, "cached_tokens": found}
    assert far["cached_tokens"] == found
    error, allowed = oracle.error(FAR, far), tolerance(FAR)
    assert error <= allowed, f"logprobs are off by {error:.1e} > {allowed:.1e}"
    wrong = oracle.error(FAR, far, is_misplaced=True)
    assert wrong > 10 * allowed, f"a wrong offset changes logprobs by {wrong:.1e} only"
