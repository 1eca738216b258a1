"""Questions over documents, one JSON object a line.

    {"question": "Who ...?", "documents": ["...", {"title": "...", "text": "..."}],
     "answers": ["gold", "another way to say it"], "kind": "two hops"}

``answers`` are alternatives, the first one is *the* gold answer. Two keys are optional: ``kind``
(results are also reported by kind) and ``target``, the gold answer as the model is expected to
say it ("It was built by Ida Kolm.") where ``answers`` hold key words; it is what the NLL and
the divergence are computed of. Where a question cannot be answered from its documents, ``answers``
holds the phrases of a refusal ("not mentioned", ...), and a right answer contains one of them.
Other keys are ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ENCODING = "utf-8-sig"
"""UTF-8, with or without the mark that some editors put in front."""


class DatasetError(ValueError):
    """A file of questions, or a public data set, that cannot be read; names the place."""


@dataclass(frozen=True)
class Document:
    """A passage, with its title where it has one."""

    text: str
    title: str = ""

    def to_json(self) -> str | dict[str, str]:
        return {"title": self.title, "text": self.text} if self.title else self.text


@dataclass(frozen=True)
class Example:
    """One question."""

    question: str
    documents: tuple[Document, ...]
    answers: tuple[str, ...]
    kind: str = ""
    target: str = ""

    @property
    def gold(self) -> str:
        """The answer that is scored by its likelihood."""
        return self.target or self.answers[0]

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "question": self.question,
            "documents": [document.to_json() for document in self.documents],
            "answers": list(self.answers),
        }
        optional = {"kind": self.kind, "target": self.target}
        return {**data, **{key: value for key, value in optional.items() if value}}

    @cached_property
    def key(self) -> str:
        """Names the example by its content, so that results survive edits of the file."""
        content = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @classmethod
    def of_json(cls, data: Any) -> Example:
        """Read one line.

        Raises:
            DatasetError: with what is wrong.
        """
        if not isinstance(data, dict):
            raise DatasetError(f"expected an object, got {type(data).__name__}")
        documents = data.get("documents")
        if not isinstance(documents, list):
            raise DatasetError("'documents' must be a list")
        answers = data.get("answers")
        if not isinstance(answers, list) or not answers:
            raise DatasetError("'answers' must be a list of at least one answer")
        return cls(
            question=_text(data.get("question"), "'question'"),
            documents=tuple(_document(i, each) for i, each in enumerate(documents)),
            answers=tuple(_text(each, f"answers[{i}]") for i, each in enumerate(answers)),
            kind=_optional(data, "kind"),
            target=_optional(data, "target"),
        )


def _document(index: int, data: Any) -> Document:
    where = f"documents[{index}]"
    if not isinstance(data, dict):
        return Document(_text(data, where))
    title = _text(data["title"], f"{where}['title']") if data.get("title") else ""
    return Document(_text(data.get("text"), f"{where}['text']"), title)


def _optional(data: dict[str, Any], key: str) -> str:
    return "" if data.get(key) is None else _text(data[key], repr(key))


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DatasetError(f"{where} must be a string that is not blank")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DatasetError(f"{where} holds half of a surrogate pair, which is no character")
    return value


def read_examples(path: Path, limit: int | None = None) -> list[Example]:
    """The examples of a JSONL file, each once, at most ``limit``.

    Raises:
        DatasetError: a line is not an example; names the line and the fault.
    """
    examples: dict[str, Example] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if len(examples) == limit:
                break
            try:
                text = line.decode(ENCODING if number == 1 else "utf-8")
                if not text.strip():
                    continue
                example = Example.of_json(json.loads(text))
            except ValueError as e:  # DatasetError, or what decoding raises
                raise DatasetError(f"{path}, line {number}: {e}") from None
            examples.setdefault(example.key, example)
    if not examples:
        raise DatasetError(f"{path} holds no examples")
    return list(examples.values())


def write_examples(path: Path, examples: Iterable[Example]) -> int:
    """Write a JSONL file, whole or, for want of examples too, not at all; returns their number."""
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            for example in examples:
                file.write(json.dumps(example.to_json(), ensure_ascii=False) + "\n")
                count += 1
        if count:
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def by_kind(examples: Iterable[Example]) -> Iterator[tuple[str, list[Example]]]:
    """The kinds in the order of their first example; examples without a kind are left out."""
    kinds: dict[str, list[Example]] = {}
    for example in examples:
        if example.kind:
            kinds.setdefault(example.kind, []).append(example)
    yield from kinds.items()
