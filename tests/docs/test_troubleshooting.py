"""What docs/troubleshooting.md quotes of messages is what the code says."""

from __future__ import annotations

import ast
import re

import pytest

from .blocks import REPOSITORY

PAGE = (REPOSITORY / "docs" / "troubleshooting.md").read_text()


def quotations() -> list[str]:
    """From the table of refused requests, and from headings that quote a message of ours."""
    _, _, section = PAGE.partition("## A request is refused")
    table = section.partition("\n## ")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    headings = re.findall(r"^### `(.*)`$", PAGE, re.MULTILINE)
    quoted = [phrase for cell in cells for phrase in re.findall(r"`([^`]+)`", cell)]
    return quoted + [part for heading in headings for part in heading.split(" ... ")]


@pytest.fixture(scope="module")
def messages() -> str:
    """Every string of the package."""
    files = [*REPOSITORY.glob("sglang_lazy/**/*.py"), *REPOSITORY.glob("patches/*.py")]
    trees = [ast.parse(path.read_text()) for path in files]
    nodes = (node for tree in trees for node in ast.walk(tree))
    return "\n".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))


@pytest.mark.parametrize("phrase", quotations())
def test_quotation(phrase: str, messages: str) -> None:
    argparse_says = "unrecognized arguments: "
    assert phrase.removeprefix(argparse_says).removesuffix(" ...") in messages
