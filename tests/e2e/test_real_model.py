"""The demo's model, complete and block-fine-tuned: its numbers in every mode, and its answers."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..engines import Server, ServerSlot, running_server
from ..oracle import Oracle
from .prompts import Prompt, Writer
from .subject import Subject, assert_reuse

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "block_finetune"))

from generate import evaluation_set
from prompts import PromptBuilder
from questions import KINDS, is_right

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def tuned_server(tuned_model_dir: Path, server_slot: ServerSlot) -> Iterator[Server]:
    server_slot.close()
    with running_server(tuned_model_dir, chunk_cache="lazy") as server:
        yield server


def test_real_model(
    tuned_model_dir: Path, tuned_server: Server, writer: Writer, tolerance: float
) -> None:
    """One prompt of several passages in every mode."""
    s = writer.encode("<|im_start|>user\nAnswer from the passages.\n")
    passages = [writer.story(i, 60) for i in range(4)]
    q = writer.encode("\nWhere was the violin sold?<|im_end|>\n<|im_start|>assistant\n")
    oracle = Oracle(tuned_model_dir)
    for mode in ("sink", "none", "preamble"):
        subject = Subject(tuned_server, oracle, 1, tolerance, mode, overrides=True)
        subject.ask(Prompt.of(s, *((p,) for p in passages), q))
        warm = subject.ask(Prompt.of(s, *((p,) for p in reversed(passages)), q))
        assert_reuse(warm, len(s) + sum(map(len, passages)), documents=4, hits=4)


@pytest.mark.parametrize("mode", ["sink", "none"])
def test_answers_are_right(tuned_server: Server, writer: Writer, mode: str) -> None:
    """A held-out question of each kind, about documents that were encoded alone."""
    builder = PromptBuilder(writer.tokenizer)
    # The sixth of each kind: the adapter answers it, so the engine must.
    for row in evaluation_set("1", "test", 6, KINDS)[5::6]:
        prompt = builder.prompt(row["documents"], row["question"])
        output = tuned_server.generate(
            segments=[
                {"document" if is_document else "text": text}
                for text, is_document in prompt.segments
            ],
            chunk_context=mode,
            sampling_params={"temperature": 0, "max_new_tokens": 64},
        )
        assert is_right(output["text"], row["answers"]), (row["question"], output["text"])
