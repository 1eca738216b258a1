"""Reading and writing questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from sglang_lazy.evaluate.dataset import (
    DatasetError,
    Document,
    Example,
    by_kind,
    read_examples,
    write_examples,
)

LINE = {"question": "Who?", "documents": ["A.", {"title": "T", "text": "B."}], "answers": ["x"]}


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_round_trip(tmp_path: Path) -> None:
    extra = {"kind": "fact", "target": "It is x.", "id": 7}
    (example,) = read_examples(write_lines(tmp_path / "q.jsonl", {**LINE, **extra}))
    assert example.documents == (Document("A."), Document("B.", "T"))
    assert (example.kind, example.gold) == ("fact", "It is x.")
    assert write_examples(tmp_path / "copy.jsonl", [example]) == 1
    assert read_examples(tmp_path / "copy.jsonl") == [example]


def test_first_answer_is_gold_without_a_target() -> None:
    assert Example.of_json({**LINE, "answers": ["x", "y"]}).gold == "x"


def test_key_names_the_content() -> None:
    key = Example.of_json(LINE).key
    assert Example.of_json({**LINE, "id": 1}).key == key
    for change in ({"answers": ["y"]}, {"kind": "k"}, {"documents": ["A."]}, {"target": "x"}):
        assert Example.of_json({**LINE, **change}).key != key


def test_repeated_questions_count_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "q.jsonl", LINE, LINE, {**LINE, "question": "Where?"})
    assert [e.question for e in read_examples(path)] == ["Who?", "Where?"]
    assert len(read_examples(path, limit=1)) == 1


@pytest.mark.parametrize(
    "line, fault",
    [
        ([], "an object"),
        ({**LINE, "question": " "}, "'question'"),
        ({**LINE, "documents": "A."}, "'documents'"),
        ({**LINE, "documents": ["A.", {"title": "T"}]}, "documents[1]['text']"),
        ({**LINE, "documents": ["A.", ""]}, "documents[1]"),
        ({**LINE, "answers": []}, "'answers'"),
        ({**LINE, "answers": ["x", 3]}, "answers[1]"),
        ({**LINE, "kind": 3}, "'kind'"),
        ({**LINE, "question": "Who \ud83d?"}, "'question' holds half of a surrogate pair"),
    ],
)
def test_faults_are_named(tmp_path: Path, line: Any, fault: str) -> None:
    with pytest.raises(DatasetError) as error:
        read_examples(write_lines(tmp_path / "q.jsonl", LINE, line))
    assert "line 2" in str(error.value)
    assert fault in str(error.value)


def test_broken_json_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": ')
    with pytest.raises(DatasetError, match="line 1"):
        read_examples(tmp_path / "q.jsonl")
    (tmp_path / "q.jsonl").write_text("\n")
    with pytest.raises(DatasetError, match="no examples"):
        read_examples(tmp_path / "q.jsonl")


def test_encoding(tmp_path: Path) -> None:
    """UTF-8, with an editor's mark in front or without; what else it is, is said with its place."""
    path = write_lines(tmp_path / "q.jsonl", LINE)
    text = path.read_bytes()
    expected = read_examples(path)
    path.write_bytes(b"\xef\xbb\xbf" + text)
    assert read_examples(path) == expected
    path.write_bytes(text + b'\n{"question": "caf\xe9"}\n')
    with pytest.raises(DatasetError, match=r"q\.jsonl, line 2.*utf-8"):
        read_examples(path)


def test_by_kind_keeps_the_order() -> None:
    kinds = ["b", "a", None, "b"]
    examples = [Example.of_json({**LINE, "kind": kind}) for kind in kinds]
    assert [(kind, len(group)) for kind, group in by_kind(examples)] == [("b", 2), ("a", 1)]
