"""The complete SmolLM2-135M-Instruct, one prompt of several passages in every mode."""

from pathlib import Path

import pytest

from ..engines import ServerSlot, running_server
from ..oracle import Oracle
from .prompts import Prompt, Writer
from .subject import Subject, assert_reuse

pytestmark = pytest.mark.server


def test_real_model(
    real_model_dir: Path, server_slot: ServerSlot, writer: Writer, tolerance: float
) -> None:
    server_slot.close()
    s = writer.encode("<|im_start|>user\nAnswer from the passages.\n")
    passages = [writer.story(i, 60) for i in range(4)]
    q = writer.encode("\nWhere was the violin sold?<|im_end|>\n<|im_start|>assistant\n")
    oracle = Oracle(real_model_dir)
    with running_server(real_model_dir, chunk_cache="lazy") as server:
        for mode in ("sink", "none", "preamble"):
            subject = Subject(server, oracle, 1, tolerance, mode, overrides=True)
            subject.ask(Prompt.of(s, *((p,) for p in passages), q))
            warm = subject.ask(Prompt.of(s, *((p,) for p in reversed(passages)), q))
            assert_reuse(warm, len(s) + sum(map(len, passages)), documents=4, hits=4)
