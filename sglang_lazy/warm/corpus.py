"""Reading documents: JSON lines, or a directory of text files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sglang_lazy.surfaces.documents import document_text

STDIN = "-"


class Document(NamedTuple):
    """One document, as it will stand in prompts.

    Attributes:
        name: where it was read, for messages.
        text: its characters; None where it cannot be used.
        size: bytes read for it.
        fault: why it cannot be used.
    """

    name: str
    text: str | None
    size: int
    fault: str = ""


def corpus_size(paths: Iterable[str]) -> int | None:
    """Bytes of all files; None where one of them is standard input."""
    given = list(paths)
    if STDIN in given:
        return None
    return sum(file.stat().st_size for path in given for file in _files(path))


def read_corpus(paths: Iterable[str], template: str | None = None) -> Iterator[Document]:
    """The documents of files of JSON lines and of directories, in order.

    Args:
        paths: each a file of JSON lines, ``-`` for standard input, or a directory: every
            file in it is a document, but hidden ones.
        template: how a document stands in prompts; see :func:`render`.
    """
    for path in paths:
        if path == STDIN:
            yield from _read_lines(sys.stdin.buffer, "line", template)
        elif Path(path).is_dir():
            for file in _files(path):
                data = file.read_bytes()
                text, fault = _decode(data)
                yield _document(str(file), {"text": text}, len(data), fault, template)
        else:
            with open(path, "rb") as lines:
                yield from _read_lines(lines, path, template)


def render(text: str, title: str | None, template: str | None) -> str:
    """A document as it stands in prompts: tokens must match those of later prompts exactly.

    Args:
        text: the document.
        title: its title, or None.
        template: ``{text}`` and ``{title}`` in it are replaced. By default the text alone,
            behind the title and a newline where there is a title.
    """
    if template is None:
        return document_text(text, title)
    values = {"{text}": text, "{title}": title or ""}
    return re.sub(r"\{(?:text|title)\}", lambda match: values[match[0]], template)


def _files(path: str) -> list[Path]:
    root = Path(path)
    if not root.is_dir():
        return [root]
    return sorted(
        file
        for file in root.rglob("*")
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(root).parts)
    )


def _read_lines(lines: Iterable[bytes], name: str, template: str | None) -> Iterator[Document]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        value: Any = None
        text, fault = _decode(line)
        if not fault:
            try:
                value = json.loads(text)
            except ValueError as error:
                fault = f"not JSON: {error}"
        yield _document(f"{name}:{number}", value, len(line), fault, template)


def _decode(data: bytes) -> tuple[str, str]:
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return "", f"not UTF-8: {error}"


def _document(name: str, value: Any, size: int, fault: str, template: str | None) -> Document:
    if not fault:
        given = {"text": value} if isinstance(value, str) else value
        fault = _fault(given)
    if fault:
        return Document(name, None, size, fault)
    return Document(name, render(given["text"], given.get("title"), template), size)


def _fault(given: Any) -> str:
    if not isinstance(given, dict):
        return 'must be a string, or an object with "text"'
    if not isinstance(given.get("text"), str) or not given["text"]:
        return '"text" must be a non-empty string'
    if not isinstance(given.get("title"), str | None):
        return '"title" must be a string'
    return ""
