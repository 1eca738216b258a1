"""Commands of shell blocks: run where a running server is all that they need, else checked."""

from __future__ import annotations

import argparse
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from sglang_lazy.patches.server_args import add_cli_args
from sglang_lazy.settings import check_given

from .blocks import REPOSITORY


class Setting(NamedTuple):
    """Where a command runs."""

    url: str
    directory: Path


def run(words: Sequence[str], setting: Setting) -> None:
    """Run or check one command.

    Raises:
        AssertionError: it fails, or nobody here knows how to check it.
    """
    for start, check in CHECKS.items():
        if tuple(words[: len(start)]) == start:
            check(list(words[len(start) :]), setting)
            return
    raise AssertionError(f"no test knows the command {' '.join(words)}")


def _curl(arguments: list[str], setting: Setting) -> None:
    command = ["curl", "--silent", "--show-error", "--fail-with-body", *arguments]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=setting.directory
    )
    assert result.returncode == 0, f"{result.stdout}{result.stderr}"


def _launch_server(arguments: list[str], setting: Setting) -> None:
    """SGLang's own parser with our options, and our refusals."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(exit_on_error=False)
    add_cli_args(ServerArgs.add_cli_args, parser)
    args = parser.parse_args(arguments)
    if args.chunk_cache == "lazy":
        check_given(vars(args))


def _warm(arguments: list[str], setting: Setting) -> None:
    from sglang_lazy.warm.__main__ import main

    url = [] if "--url" in arguments else ["--url", setting.url]
    corpora = {name: str(setting.directory / name) for name in ("docs.jsonl", "notes/")}
    assert main([*url, *(corpora.get(a, a) for a in arguments)]) == 0


def _top(arguments: list[str], setting: Setting) -> None:
    from sglang_lazy.top.__main__ import main

    url = [] if "--url" in arguments else ["--url", setting.url]
    assert main([*url, "--once", *arguments]) == 0


def _evaluate(arguments: list[str], setting: Setting) -> None:
    from sglang_lazy.evaluate.cli import _parser

    end = arguments.index("--") if "--" in arguments else len(arguments)
    _parser().parse_args(arguments[:end])
    _launch_server(["--model-path", "x", *arguments[end + 1 :]], setting)


def _pip_install(arguments: list[str], setting: Setting) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for argument in arguments:
        assert argument.startswith("."), f"pip install {argument} is not this project"
        extras = Requirement(f"project{argument[1:]}").extras
        assert extras <= set(project["optional-dependencies"])


def _make(arguments: list[str], setting: Setting) -> None:
    command = ["make", "--dry-run", *arguments]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


def _script(arguments: list[str], setting: Setting) -> None:
    assert (REPOSITORY / arguments[0]).is_file(), f"{arguments[0]} does not exist"


CHECKS: dict[tuple[str, ...], Callable[[list[str], Setting], None]] = {
    ("curl",): _curl,
    ("python", "-m", "sglang.launch_server"): _launch_server,
    ("python", "-m", "sglang_lazy.warm"): _warm,
    ("python", "-m", "sglang_lazy.top"): _top,
    ("python", "-m", "sglang_lazy.evaluate"): _evaluate,
    ("python",): _script,
    ("pip", "install"): _pip_install,
    ("make",): _make,
}
