"""Every code block of README.md and docs/ works."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..engines import Server
from .blocks import MODEL, OUTPUT, PAGES, TESTED, Block, commands, read_blocks
from .shell import Setting, run

BLOCKS = [block for page in PAGES for block in read_blocks(page)]


def blocks(language: str, programs: bool = False) -> Any:
    """Parametrizes a test by the blocks in a language."""
    chosen = [b for b in BLOCKS if b.language == language and b.is_program == programs]
    return pytest.mark.parametrize("block", chosen, ids=lambda block: block.place)


@pytest.fixture(scope="module")
def sessions() -> dict[Path, dict[str, Any]]:
    """By page: the names that its Python blocks have defined."""
    return {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_language_that_is_tested(page: Path) -> None:
    unknown = [b.place for b in read_blocks(page) if b.language not in (*TESTED, *OUTPUT)]
    assert not unknown, f"use one of {', '.join((*TESTED, *OUTPUT))}"


@blocks("json")
def test_json(block: Block) -> None:
    json.loads(block.code)


@pytest.mark.server
@blocks("python")
def test_python(
    block: Block, server: Server, model_dir: Path, sessions: dict[Path, dict[str, Any]]
) -> None:
    """The Python blocks of a page run one after another, as in one session."""
    session = sessions.setdefault(block.page, {"__name__": "page"})
    done = session.setdefault("__done__", set())
    for earlier in BLOCKS:
        is_due = earlier.page == block.page and earlier.line <= block.line
        is_snippet = earlier.language == "python" and not earlier.is_program
        if is_due and is_snippet and earlier.line not in done:
            code = "\n" * (earlier.line - 1) + earlier.filled_in(server.url, model_dir)
            exec(compile(code, str(earlier.page), "exec"), session)
            done.add(earlier.line)


@pytest.mark.server
@blocks("sh")
def test_shell(block: Block, server: Server, model_dir: Path, directory: Path) -> None:
    setting = Setting(server.url, directory)
    found = list(commands(block.filled_in(server.url, model_dir)))
    assert found, "there is no command in it"
    for words in found:
        run(words, setting)


@pytest.mark.server
@pytest.mark.slow
@blocks("python", programs=True)
def test_program(block: Block, model_dir: Path, directory: Path) -> None:
    run_program(block.code.replace(MODEL, str(model_dir)), directory)


@functools.cache  # the same program may stand on several pages
def run_program(code: str, directory: Path) -> None:
    script = directory / "program.py"
    script.write_text(code)
    result = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, cwd=directory
    )
    assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
