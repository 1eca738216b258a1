"""The code blocks of the documentation, and what is written instead of them in a test.

Pages write an address and a model as their readers do: ``http://127.0.0.1:30000``, where
SGLang listens by default, and ``<model>``. Both are replaced before a block is run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

REPOSITORY = Path(__file__).parents[2]
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))

TESTED = ("python", "sh", "json")
OUTPUT = ("text", "mermaid")
"""Languages of blocks that show something and cannot be run."""

URL = "http://127.0.0.1:30000"
MODEL = "<model>"


class Block(NamedTuple):
    """A code block; ``line`` is that of its first line of code."""

    page: Path
    line: int
    language: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"

    @property
    def is_program(self) -> bool:
        """Whether it has to run as a file of its own: engines start processes."""
        return self.language == "python" and "__name__" in self.code

    def filled_in(self, url: str, model_dir: Path) -> str:
        return self.code.replace(URL, url).replace(MODEL, str(model_dir))


def read_blocks(page: Path) -> list[Block]:
    """Fenced and indented blocks of a page in order; an indented one has no language."""
    blocks = []
    for token in MarkdownIt("commonmark").parse(page.read_text()):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            first = token.map[0] + (2 if token.type == "fence" else 1)
            language = token.info.split()[0] if token.info.split() else ""
            blocks.append(Block(page, first, language, token.content))
    return blocks


def commands(code: str) -> Iterator[list[str]]:
    """The commands of a shell block, taken apart as the shell does; without their variables.

    Raises:
        ValueError: a quotation is not closed.
    """
    pending = ""
    lines = code.replace("\\\n", " ").splitlines()
    for number, line in enumerate(lines, 1):
        pending += line + "\n"
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:
            if number == len(lines):
                raise
            continue  # the quotation goes on in the next line
        pending = ""
        while words and "=" in words[0]:
            words.pop(0)
        if words:
            yield words
