"""What a conversion may be asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang_lazy.evaluate.dataset import DatasetError, Document

FAULTS = (KeyError, TypeError, ValueError, AttributeError)
"""What a record of another format raises while it is read."""


def answers_of(value: Any) -> list[Any]:
    """A list of answers, less blank ones.

    Raises:
        DatasetError: it is no list. The letters of a text would pass for answers.
    """
    if not isinstance(value, list):
        raise DatasetError(f"expected a list of answers, got {value!r}")
    return [each for each in value if not isinstance(each, str) or each.strip()]


@dataclass(frozen=True)
class Options:
    """How many documents a question keeps, and how long they may be.

    Attributes:
        max_documents: documents a question keeps; those that hold its answer are kept first.
        max_words: words a document keeps, from its start.
        seed: of the order of documents, where a format has no order of its own.
        evidence: folder of texts that a format refers to by file name.
    """

    max_documents: int | None = None
    max_words: int | None = None
    seed: int = 0
    evidence: Path | None = None

    def documents(
        self, documents: Sequence[Document], gold: Sequence[bool] | None = None
    ) -> tuple[Document, ...]:
        """The documents to keep, in the order given.

        Args:
            gold: whether each document is needed for the answer, where a format says so.
        """
        indices = range(len(documents))
        if gold is not None:
            indices = sorted(indices, key=lambda i: not gold[i])  # type: ignore[assignment]
        kept = sorted(indices[: self.max_documents])
        return tuple(self._shortened(documents[i]) for i in kept)

    def shuffled(self, documents: Sequence[Document], question: str) -> tuple[Document, ...]:
        """In an order that depends on the seed and the question only."""
        order = list(documents)
        random.Random(f"{self.seed} {question}").shuffle(order)
        return tuple(order)

    def _shortened(self, document: Document) -> Document:
        words = document.text.split()
        if self.max_words is None or len(words) <= self.max_words:
            return document
        return Document(" ".join(words[: self.max_words]), document.title)
