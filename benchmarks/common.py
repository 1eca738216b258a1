"""What every benchmark records: where it ran, with what, and how."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sglang_lazy import provenance

RESULTS = Path(__file__).parent / "results"


def command() -> str:
    """The command line, less where its results went."""
    program = ["python", f"benchmarks/{Path(sys.argv[0]).name}"]
    return provenance.command_line(program, ("--out", "--results", "--commit"))


def record(
    figure: str,
    value: float,
    baseline: float,
    unit: str,
    folder: Path = RESULTS,
    **more: Any,
) -> dict[str, Any]:
    """Write ``<folder>/<figure>.json``; ``baseline`` was measured in the same run."""
    result = {
        "figure": figure,
        "value": value,
        "baseline": baseline,
        "ratio": value / baseline,
        "unit": unit,
        "gpu": provenance.gpu_name(),
        "versions": provenance.versions(),
        "commit": more.pop("commit", None) or provenance.commit(__file__),
        "command": command(),
        **more,
    }
    provenance.write_result(folder, result)
    return result
