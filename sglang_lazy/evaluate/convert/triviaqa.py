"""TriviaQA (Joshi et al. 2017) with evidence, in three public formats.

The ``rc`` configurations on the Hugging Face hub:

    {"question": "...", "answer": {"value": "...", "aliases": [...]},
     "entity_pages": {"title": [...], "wiki_context": [...]},
     "search_results": {"title": [...], "search_context": [...]}}

The original release, ``qa/{wikipedia,web}-{train,dev}.json``, whose texts are files of
``evidence/wikipedia`` and ``evidence/web``; ``--evidence`` names that folder:

    {"Data": [{"Question": "...", "Answer": {"Value": "...", "Aliases": [...]},
               "EntityPages": [{"Title": "...", "Filename": "..."}],
               "SearchResults": [{"Title": "...", "Filename": "..."}]}]}

DPR's retrieval results with ``ctxs`` (see ``natural_questions``).

Wikipedia pages come first, then search results. They are whole pages: use ``--max-words``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sglang_lazy.evaluate.convert.files import rows
from sglang_lazy.evaluate.convert.natural_questions import retrieved
from sglang_lazy.evaluate.convert.options import FAULTS, Options, answers_of
from sglang_lazy.evaluate.dataset import DatasetError, Document, Example

UNKNOWN = "<unk>"
"""Stands for the answers of the test set on the hub."""


def triviaqa(records: Iterable[Mapping[str, Any]], options: Options) -> Iterator[Example]:
    """Convert TriviaQA; questions without any text are left out.

    Raises:
        DatasetError: a record is in none of the formats, or its texts cannot be found.
    """
    for number, record in enumerate(records, 1):
        try:
            if "ctxs" in record:
                yield retrieved(record, options)
                continue
            example = _original(record, options) if "Question" in record else _hub(record, options)
        except (*FAULTS, OSError) as e:
            raise DatasetError(
                f"question {number} is not in TriviaQA's format, or lacks its evidence: {e!r}"
            ) from None
        if example.documents:
            yield example


def _hub(record: Mapping[str, Any], options: Options) -> Example:
    pages = [
        Document(r["wiki_context"], r.get("title") or "") for r in rows(record["entity_pages"])
    ]
    pages += [
        Document(r["search_context"], r.get("title") or "") for r in rows(record["search_results"])
    ]
    answer = record["answer"]
    return _example(record["question"], answer["value"], answer["aliases"], pages, options)


def _original(record: Mapping[str, Any], options: Options) -> Example:
    if options.evidence is None:
        raise ValueError("name the folder of its texts with --evidence")
    pages = []
    for key, folder in (("EntityPages", "wikipedia"), ("SearchResults", "web")):
        for page in record.get(key) or ():
            path = options.evidence / folder / page["Filename"]
            pages.append(Document(path.read_text(encoding="utf-8"), page.get("Title") or ""))
    answer = record["Answer"]
    return _example(record["Question"], answer["Value"], answer["Aliases"], pages, options)


def _example(
    question: str, value: str, aliases: Any, pages: list[Document], options: Options
) -> Example:
    if value == UNKNOWN:
        raise ValueError("it has no answer; the test set's are not public")
    kept = options.documents(
        [Document(p.text.strip(), p.title.strip()) for p in pages if p.text.strip()]
    )
    return Example.of_json({
        "question": question,
        "documents": [document.to_json() for document in kept],
        "answers": list(dict.fromkeys(answers_of([value, *answers_of(aliases)]))),
    })  # fmt: skip
