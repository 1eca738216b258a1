"""`sglang.Engine`: the settings and the request fields of the server."""

from pathlib import Path
from typing import Any

import pytest

from ..engines import SMALL_FP32_CPU, Completion, ServerSlot
from ..oracle import Oracle
from .engine_process import run_engine
from .prompts import Prompt, Writer
from .subject import assert_reuse, largest_error, scored

pytestmark = pytest.mark.server

LINK_TOKENS = 2
SEGMENTS = [{"text": "Read."}, {"document": " Belka sold the violin."}, {"text": " Who sold it?"}]


@pytest.fixture(scope="module")
def outputs(
    model_dir: Path, server_slot: ServerSlot, tolerance: float, writer: Writer
) -> list[Any]:
    server_slot.close()
    spans = Prompt.of(*ids_of_segments(writer)).request()
    requests = [
        {"segments": SEGMENTS},
        {"segments": SEGMENTS},
        spans,
        {"segments": [SEGMENTS, SEGMENTS[2:]]},
        {"segments": SEGMENTS[:2]},
        {"prompt": "Hi", "segments": SEGMENTS},
        {"segments": SEGMENTS},
        {"segments": SEGMENTS, "chunk_link_tokens": 1},
    ]
    job = {
        "settings": {
            "model_path": str(model_dir),
            **SMALL_FP32_CPU,
            "chunk_cache": "lazy",
            "chunk_context": "none",
            "chunk_link_tokens": LINK_TOKENS,
        },
        "requests": [{**request, **scored()} for request in requests],
    }
    return run_engine(job)


def ids_of_segments(writer: Writer) -> list[Any]:
    return [
        (writer.encode(s["document"]),) if "document" in s else writer.encode(s["text"])
        for s in SEGMENTS
    ]


def test_segments(outputs: list[Any], writer: Writer, oracle: Oracle, tolerance: float) -> None:
    prompt = Prompt.of(*ids_of_segments(writer))
    cold, warm, by_ids = map(Completion.of, outputs[:3])
    assert_reuse(cold, 0, documents=1, hits=0)
    assert_reuse(warm, len(prompt) - 1, documents=1, hits=1)
    assert_reuse(by_ids, len(prompt) - 1, documents=1, hits=1)
    for completion in (cold, warm, by_ids):
        extended = prompt.then(completion.token_ids[:-1])
        rows = oracle.logprobs(
            extended.segments, "none", start=len(prompt) - 1, link_tokens=LINK_TOKENS
        )
        assert largest_error(rows, completion) <= tolerance


def test_link_tokens_of_a_request(outputs: list[Any]) -> None:
    """One link token less than the server's number: one token more of the document hits."""
    default, fewer = (Completion.of(outputs[i]).chunk_cache for i in (1, 7))
    assert fewer["cached_tokens"] == default["cached_tokens"] + 1 > 1


def test_batch(outputs: list[Any]) -> None:
    assert [Completion.of(o).chunk_cache["documents"] for o in outputs[3]] == [1, 0]


def test_bad_input_raises_and_costs_nothing_else(outputs: list[Any]) -> None:
    assert "ends in a document" in outputs[4]["error"]
    assert "segments" in outputs[5]["error"]
    assert outputs[6]["meta_info"]["chunk_cache"]["hits"] == 1
