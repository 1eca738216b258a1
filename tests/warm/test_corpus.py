"""Reading a corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglang_lazy.warm.corpus import corpus_size, read_corpus, render


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        '"plain"',
        "",
        '{"text": "body", "title": "Head", "id": 7}',
        '{"text": "no title", "title": null}',
        '{"text": ""}',
        '{"body": "x"}',
        '{"text": "x", "title": 1}',
        "[1]",
        "{",
    ]
    path = tmp_path / "docs.jsonl"
    path.write_bytes("\n".join(lines).encode() + b'\n"\xff"\n')
    documents = list(read_corpus([str(path)]))
    assert [d.text for d in documents[:3]] == ["plain", "Head\nbody", "no title"]
    assert all(d.text is None for d in documents[3:])
    assert [d.name.rsplit(":", 1)[1] for d in documents] == list("13456789") + ["10"]
    faults = [d.fault for d in documents[3:]]
    assert faults[:4] == [
        '"text" must be a non-empty string',
        '"text" must be a non-empty string',
        '"title" must be a string',
        'must be a string, or an object with "text"',
    ]
    assert faults[4].startswith("not JSON") and faults[5].startswith("not UTF-8")
    # The blank line alone is not counted.
    assert sum(d.size for d in documents) + 1 == corpus_size([str(path)])


def test_directory(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("two\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.md").write_text("one")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("hidden")
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe")
    documents = list(read_corpus([str(tmp_path)]))
    assert [d.text for d in documents] == ["one", "two\n", None]
    assert corpus_size([str(tmp_path)]) == 3 + 4 + 2


@pytest.mark.parametrize(
    ("title", "template", "expected"),
    [
        (None, None, "body {title}"),
        ("", None, "body {title}"),
        ("T {text}", None, "T {text}\nbody {title}"),
        ("T {text}", "\n\n{title}: {text}{x}", "\n\nT {text}: body {title}{x}"),
        (None, "<{title}>{text}", "<>body {title}"),
    ],
    ids=repr,
)
def test_template_replaces_once(title: str | None, template: str | None, expected: str) -> None:
    """Braces in a document stay what they are."""
    assert render("body {title}", title, template) == expected


def test_surrogates_survive_reading(tmp_path: Path) -> None:
    """JSON can spell half a character; the server refuses it, not the reader."""
    path = tmp_path / "docs.jsonl"
    path.write_text(json.dumps("\ud800"))
    assert [d.text for d in read_corpus([str(path)])] == ["\ud800"]
