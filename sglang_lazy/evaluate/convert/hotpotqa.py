"""HotpotQA (Yang et al. 2018), ``hotpot_{train,dev}_*_v1*.json`` and its Parquet form.

    {"_id": "...", "question": "...", "answer": "...", "type": "bridge",
     "supporting_facts": [["Title", 0], ...],
     "context": [["Title", ["First sentence.", " Second sentence."]], ...]}

On the Hugging Face hub ``context`` is ``{"title": [...], "sentences": [[...], ...]}`` and
``supporting_facts`` is ``{"title": [...], "sent_id": [...]}``. A question's ``type`` becomes
its kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sglang_lazy.evaluate.convert.options import FAULTS, Options
from sglang_lazy.evaluate.dataset import DatasetError, Document, Example


def hotpotqa(records: Iterable[Mapping[str, Any]], options: Options) -> Iterator[Example]:
    """Convert HotpotQA; the paragraphs keep their order.

    Raises:
        DatasetError: a record lacks a key, such as the answers of a test set.
    """
    for record in records:
        try:
            yield _example(record, options)
        except FAULTS as e:
            where = record.get("_id") or record.get("id") if isinstance(record, Mapping) else record
            raise DatasetError(f"question {where!r} is not in HotpotQA's format: {e!r}") from None


def _example(record: Mapping[str, Any], options: Options) -> Example:
    paragraphs = _pairs(record["context"], "title", "sentences")
    documents = [Document(_joined(sentences), title) for title, sentences in paragraphs]
    supporting = _pairs(record.get("supporting_facts") or [], "title", "sent_id")
    titles = {title for title, _ in supporting}
    kept = [d for d in documents if d.text]  # some paragraphs are empty
    return Example.of_json({
        "question": record["question"],
        "documents": [
            d.to_json() for d in options.documents(kept, [d.title in titles for d in kept])
        ],
        "answers": [record["answer"]],
        "kind": record.get("type") or None,
    })  # fmt: skip


def _pairs(value: Any, first: str, second: str) -> list[tuple[str, Any]]:
    if isinstance(value, str):  # some copies store the list as JSON
        value = json.loads(value)
    if isinstance(value, Mapping):
        return list(zip(value[first], value[second], strict=True))
    return [(title, rest) for title, rest in value]


def _joined(sentences: Iterable[str]) -> str:
    """One text; HotpotQA's sentences bring their space along, those of 2Wiki do not."""
    text = ""
    for sentence in sentences:
        needs_space = text and not text[-1].isspace() and not sentence[:1].isspace()
        text += (" " if needs_space else "") + sentence
    return text.strip()
