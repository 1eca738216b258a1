"""Where a figure was measured, with what, and how: what every recorded result says."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("sglang", "torch", "triton", "sglang-kernel")


def gpu_name() -> str:
    """The first GPU of this machine, or "none"."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def versions() -> dict[str, str]:
    """Of Python and of the packages that decide about speed and numbers."""
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit(file: str | Path) -> str:
    """Short commit of the repository that holds a file; "unknown" where none does."""
    path = Path(file).resolve()

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        run = subprocess.run(command, capture_output=True, text=True, cwd=path.parent, check=False)
        return run.stdout.strip() if run.returncode == 0 else ""

    # An installed package may lie inside of somebody else's repository.
    is_tracked = git("ls-files", "--error-unmatch", path.name)
    return (is_tracked and git("rev-parse", "--short", "HEAD")) or "unknown"


def command_line(program: Sequence[str], left_out: Sequence[str]) -> str:
    """How this process was called, less the given options and their values.

    Args:
        program: what stands before the arguments, such as ``["python", "x.py"]``.
        left_out: options with one value each that say only where something goes to.
    """
    kept: list[str] = []
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in left_out:
            next(arguments, None)
        elif argument.partition("=")[0] not in left_out:
            kept.append(argument)
    return shlex.join([*program, *kept])


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write ``<folder>/<figure>.json``; ``result`` names the figure."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    (folder / f"{result['figure']}.json").write_text(text, encoding="utf-8")
