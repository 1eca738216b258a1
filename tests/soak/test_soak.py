"""A short run of the soak test, and whether it would notice a fault and make it small.

Longer runs: `python -m tests.soak`.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..engines import command_line
from ..oracle import Segment
from .arena import Arena
from .hunt import hunt
from .judge import Judge, Rows
from .run import run
from .traffic import SERVER, Traffic

pytestmark = pytest.mark.server

SECONDS = float(os.environ.get("SOAK_SECONDS", 60))
SHRINK_SECONDS = 120
COMMAND = "python -m sglang.launch_server " + " ".join(command_line(SERVER))


def test_every_answer_is_right(
    arena: Arena, judge: Judge, soak_tokenizer: Any, seed: int, tmp_path: Path
) -> None:
    """Under traffic that evicts, retracts, aborts, flushes and disconnects all the time."""
    print(f"seed {seed}; another one: SOAK_SEED=... pytest {__file__}")
    arena.reset()
    report = run(arena, Traffic(seed, soak_tokenizer), judge, SECONDS)
    print(report.figures())
    if report.faults:
        script = tmp_path / f"fault_{seed}.py"
        hunt(arena, report, judge, SHRINK_SECONDS, script, COMMAND)
        pytest.fail(f"{report.faults[0]}\n\nmade small:\n{script.read_text()}")
    if SECONDS < 60:
        return
    tally = report.tally
    assert tally.checked > 2 * SECONDS
    assert 0 < tally.hits < tally.documents
    assert tally.retractions and tally.aborted and tally.left
    assert report.summary["evicted"]["documents"]


class MistakenJudge(Judge):
    """Expects of each found document that its last token is another one."""

    def rows(
        self, outcome: Mapping[str, Any], segments: Sequence[Segment], answer: Mapping[str, Any]
    ) -> Rows:
        if (answer.get("meta") or {}).get("chunk_cache", {}).get("hits"):
            segments = [
                (kind, [*ids[:-1], ids[-1] + 1] if kind == "document" else ids)
                for kind, ids in segments
            ]
        return super().rows(outcome, segments, answer)


def test_fault_is_made_small(
    arena: Arena, judge: Judge, soak_tokenizer: Any, tmp_path: Path
) -> None:
    """A fault that takes two requests, one that brings a document and one that finds it."""
    mistaken = MistakenJudge(judge.oracle, judge.tokenizer, judge.sink_token_id)
    steps = itertools.islice(Traffic(5, soak_tokenizer, faults=0), 60)
    arena.reset()
    report = run(arena, steps, mistaken)
    assert report.faults and report.faults[0].kind == "wrong logprobs"
    script = tmp_path / "fault.py"
    small = hunt(arena, report, mistaken, SHRINK_SECONDS, script, COMMAND)
    assert small is not None and len(small) == 2

    arena.reset()
    played = subprocess.run([sys.executable, script, arena.url], capture_output=True, text=True)
    assert played.returncode == 1, played.stderr
    assert "wrong: token" in played.stdout
    assert script.read_text().count("\n") < 500
