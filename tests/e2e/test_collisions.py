"""An engine whose hashes have eight bits: collisions are misses, and every answer is right.

It evicts by policy gdsf, which needs an engine of its own as well.
"""

import os
import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..engines import SMALL_FP32_CPU, Completion, ServerSlot
from ..oracle import Oracle
from .engine_process import run_engine
from .plugins.eight_bit_hashes import digest
from .prompts import Prompt, Writer, sentences
from .subject import assert_reuse, largest_error, scored

pytestmark = pytest.mark.server

POOL = 3000
PLUGINS = Path(__file__).parent / "plugins"
ENTRY_POINT = "[sglang.srt.plugins]\neight_bit_hashes = eight_bit_hashes:register\n"


def install_plugin(path: Path) -> str:
    """Make the plugin an installed one; returns the PYTHONPATH that finds it."""
    info = path / "eight_bit_hashes-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: eight-bit-hashes\nVersion: 0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINT)
    return os.pathsep.join(filter(None, (str(path), str(PLUGINS), os.environ.get("PYTHONPATH"))))


def stories(writer: Writer) -> Iterator[list[int]]:
    """Short documents without end."""
    for i, sentence in enumerate(sentences(0)):
        yield writer.encode(f"Note {i}. {sentence}")


def colliding(writer: Writer) -> tuple[list[int], list[int]]:
    """Two documents of one hash."""
    seen: dict[bytes, list[int]] = {}
    for ids in stories(writer):
        key = digest(array("q", ids).tobytes() + b"d")
        if key in seen:
            return seen[key], ids
        seen[key] = ids
    raise AssertionError("unreachable")


@pytest.fixture(scope="module")
def pair(writer: Writer) -> list[Prompt]:
    """The same preamble and question, around either of two documents that collide."""
    preamble, question = writer.encode("Read this."), writer.encode(" Who was it, and where?")
    return [Prompt.of(preamble, (ids,), question) for ids in colliding(writer)]


@pytest.fixture(scope="module")
def crowd(writer: Writer) -> list[Prompt]:
    """60 documents in 20 prompts, with text between them that several prompts share."""
    source, rng = stories(writer), random.Random(0)
    texts = [writer.encode(text) for text in (" And this:", " Then:", " Also:")]
    question = writer.encode(" What was it?")
    prompts = []
    for _ in range(20):
        a, b, c = (next(source) for _ in range(3))
        prompts.append(Prompt.of((a,), rng.choice(texts), (b,), rng.choice(texts), (c,), question))
    return prompts


@pytest.fixture(scope="module")
def flood(writer: Writer) -> list[Prompt]:
    """More documents than fit; each prompt has one of them, and one that all have."""
    popular, question = writer.story(20, 200), writer.story(21, 8)
    return [Prompt.of((writer.story(i, 230),), (popular,), question) for i in range(18)]


@pytest.fixture(scope="module")
def outputs(
    model_dir: Path,
    server_slot: ServerSlot,
    tolerance: float,
    pair: list[Prompt],
    crowd: list[Prompt],
    flood: list[Prompt],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Any]:
    """Of the pair, twice; of the crowd, all at once, twice; of the flood."""
    server_slot.close()
    batch = {
        "input_ids": [prompt.input_ids for prompt in crowd],
        "document_spans": [prompt.document_spans for prompt in crowd],
    }
    settings = {
        "model_path": str(model_dir),
        **SMALL_FP32_CPU,
        "max_total_tokens": POOL,
        "chunk_cache": "lazy",
        "radix_eviction_policy": "gdsf",
    }
    requests = [*(prompt.request() for prompt in (*pair, *pair)), batch, batch]
    requests += [prompt.request() for prompt in flood]
    job = {"settings": settings, "requests": [{**request, **scored()} for request in requests]}
    python_path = install_plugin(tmp_path_factory.mktemp("installed"))
    return run_engine(job, PYTHONPATH=python_path)


@pytest.fixture
def check(oracle: Oracle, tokenizer: Any, tolerance: float) -> Any:
    def check(prompt: Prompt, completion: Completion) -> None:
        extended = prompt.then(completion.token_ids[:-1])
        sink = tokenizer.bos_token_id
        rows = oracle.logprobs(extended.segments, "sink", sink, start=len(prompt) - 1)
        assert largest_error(rows, completion) <= tolerance

    return check


def test_text_behind_colliding_documents(outputs: list[Any], pair: list[Prompt], check) -> None:
    completions = [Completion.of(output) for output in outputs[:4]]
    for prompt, completion in zip((*pair, *pair), completions, strict=True):
        check(prompt, completion)
    first, second = pair
    preamble = len(first.segments[0][1])
    # Documents that begin alike share that.
    head = len(os.path.commonprefix([prompt.segments[1][1] for prompt in pair]))
    assert_reuse(completions[0], 0, documents=1, hits=0)
    # The question's KV behind the first document would be wrong here.
    assert_reuse(completions[1], preamble + head, documents=1, hits=0)
    assert_reuse(completions[2], len(first) - 1, documents=1, hits=1)
    # Documents are found without a hash. The text behind the second one is not: a miss.
    found = preamble + second.num_document_tokens
    assert_reuse(completions[3], found, documents=1, hits=1)


def test_many_documents(outputs: list[Any], crowd: list[Prompt], check) -> None:
    for batch in outputs[4:6]:
        for prompt, output in zip(crowd, batch, strict=True):
            check(prompt, Completion.of(output))
    warm = [Completion.of(output) for output in outputs[5]]
    assert all(completion.chunk_cache["hits"] == 3 for completion in warm)
    whole = [c.cached_tokens == len(p) - 1 for p, c in zip(crowd, warm, strict=True)]
    assert any(whole) and not all(whole), "no text hit, or nothing collided"


def test_eviction_by_gdsf(outputs: list[Any], flood: list[Prompt], check) -> None:
    assert 230 * len(flood) > POOL
    for i, (prompt, output) in enumerate(zip(flood, outputs[6:], strict=True)):
        completion = Completion.of(output)
        check(prompt, completion)
        assert completion.chunk_cache["hits"] == (1 if i else 0), "the popular document was evicted"
