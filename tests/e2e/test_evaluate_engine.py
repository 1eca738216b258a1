"""The evaluation with an engine in its own process: the figures of a running server's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_lazy.evaluate.dataset import write_examples
from sglang_lazy.evaluate.measure import Measurement
from sglang_lazy.evaluate.prompt import PromptWriter, chat_template

from ..engines import SMALL_FP32_CPU, STRICT_CHECKS, ServerSlot, command_line
from ..oracle import Oracle
from .prompts import Writer
from .test_evaluate import questions, rows

pytestmark = pytest.mark.server


def test_engine(
    model_dir: Path,
    server_slot: ServerSlot,
    oracle: Oracle,
    writer: Writer,
    tolerance: float,
    tmp_path: Path,
) -> None:
    server_slot.close()
    write_examples(tmp_path / "q.jsonl", questions()[:2])
    command = [
        *(sys.executable, "-m", "sglang_lazy.evaluate", "run", "q.jsonl"),
        *("--model-path", str(model_dir), "--modes", "full", "none", "--max-new-tokens", "4"),
        *("--", *command_line(SMALL_FP32_CPU)),
    ]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **STRICT_CHECKS},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "All questions" in run.stdout
    lines = map(json.loads, (tmp_path / "q.results.jsonl").read_text().splitlines()[1:])
    measured = {
        (line["example"], line["mode"]): Measurement.of_json(line["result"]) for line in lines
    }
    prompts = PromptWriter(chat_template(writer.tokenizer), writer.tokenizer)
    for example in questions()[:2]:
        for mode in ("full", "none"):
            gold = prompts.answer(example.gold)
            expected = rows(oracle, prompts, example, mode)
            nll = -sum(expected[i, token].item() for i, token in enumerate(gold))
            found = measured[example.key, mode]
            assert found.nll == pytest.approx(nll, abs=tolerance * len(gold))
