"""Natural Questions with passages, in the two public formats of DPR (Karpukhin et al. 2020).

Retrieval results, as written by DPR's ``dense_retriever.py`` and distributed for FiD
(``test.json``) and for "Lost in the Middle" (``nq-open-10_total_documents_gold_at_0.jsonl.gz``):

    {"question": "...", "answers": ["...", ...],
     "ctxs": [{"title": "...", "text": "...", "has_answer": true}, ...]}

Retriever training data, ``biencoder-nq-{train,dev}.json``:

    {"question": "...", "answers": ["...", ...], "positive_ctxs": [{"title", "text"}, ...],
     "hard_negative_ctxs": [...], "negative_ctxs": [...]}

``ctxs`` keep their rank. The others have no common order: one gold passage, then hard and other
negatives fill up to ``--max-documents`` (10 by default), in an order drawn from the seed. The
original release (whole Wikipedia pages) and NQ-open (no passages) are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sglang_lazy.evaluate.convert.options import FAULTS, Options, answers_of
from sglang_lazy.evaluate.dataset import DatasetError, Document, Example

DEFAULT_DOCUMENTS = 10


def natural_questions(records: Iterable[Mapping[str, Any]], options: Options) -> Iterator[Example]:
    """Convert Natural Questions.

    Raises:
        DatasetError: a record has neither ``ctxs`` nor ``positive_ctxs``.
    """
    for number, record in enumerate(records, 1):
        try:
            if "ctxs" in record:
                yield retrieved(record, options)
            elif record["positive_ctxs"]:  # some training questions have no gold passage
                yield _training(record, options)
        except FAULTS as e:
            raise DatasetError(f"question {number} is not in DPR's format: {e!r}") from None


def retrieved(record: Mapping[str, Any], options: Options) -> Example:
    """A question with ranked ``ctxs``."""
    return _example(record, options.documents(_documents(record["ctxs"])))


def _training(record: Mapping[str, Any], options: Options) -> Example:
    negatives = [*record.get("hard_negative_ctxs", ()), *record.get("negative_ctxs", ())]
    passages = _documents([record["positive_ctxs"][0], *negatives])
    limit = options.max_documents or DEFAULT_DOCUMENTS
    kept = replace(options, max_documents=limit).documents(passages)
    return _example(record, options.shuffled(kept, record["question"]))


def _documents(passages: Iterable[Mapping[str, Any]]) -> list[Document]:
    return [
        Document(text, (passage.get("title") or "").strip())
        for passage in passages
        if (text := passage["text"].strip())
    ]


def _example(record: Mapping[str, Any], documents: Iterable[Document]) -> Example:
    return Example.of_json({
        "question": record["question"],
        "documents": [document.to_json() for document in documents],
        "answers": answers_of(record["answers"]),
    })  # fmt: skip
