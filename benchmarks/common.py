"""What every benchmark records: where it ran, with what, and how."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("sglang", "torch", "triton", "sglang-kernel")


def gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit that was measured; "unknown" outside of a repository."""
    run = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=False,
    )
    return run.stdout.strip() or "unknown"


def command() -> str:
    """The command line, less where its results went."""
    kept = []
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in ("--out", "--results", "--commit"):
            next(arguments, None)
        else:
            kept.append(argument)
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *kept])


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
        "gpu": gpu_name(),
        "versions": versions(),
        "commit": more.pop("commit", None) or commit(),
        "command": command(),
        **more,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{figure}.json").write_text(json.dumps(result, indent=2) + "\n")
    return result
