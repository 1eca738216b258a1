"""Prompts of text and documents, as requests and as the oracle's segments."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from ..oracle import Segment

NAMES = ("Arvid", "Belka", "Corin", "Dara", "Elmo", "Fenna", "Goran", "Hilde", "Ivo", "Jutta")
PLACES = ("Ostrava", "Kilden", "Marrow", "Tavira", "Lumen", "Sandvik", "Perth", "Orvieto", "Lodz")
THINGS = ("lantern", "violin", "compass", "kettle", "ledger", "telescope", "sledge", "tapestry")
VERBS = ("repaired", "sold", "painted", "borrowed", "hid", "measured", "carried", "lost", "found")


@cache
def load_tokenizer(model_dir: Path) -> Any:
    return AutoTokenizer.from_pretrained(model_dir)


def sentences(seed: int) -> Iterator[str]:
    """An endless invented story, the same for the same seed."""
    rng = random.Random(seed)
    while True:
        name, place, thing = rng.choice(NAMES), rng.choice(PLACES), rng.choice(THINGS)
        yield f"{name} {rng.choice(VERBS)} the {thing} in {place} in {rng.randint(1600, 1999)}. "


@dataclass(frozen=True)
class Writer:
    """Makes token ids of natural text."""

    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def story(self, seed: int, num_tokens: int) -> list[int]:
        """Exactly `num_tokens` tokens of story `seed`, 0 to 25.

        Shorter is a prefix of longer; different stories differ in their first token.
        """
        text = chr(ord("A") + seed) + ": "
        for sentence in sentences(seed):
            text += sentence
            # One sentence more, so that the cut never changes a token.
            if len(ids := self.encode(text)) > num_tokens + 32:
                return ids[:num_tokens]
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class Prompt:
    """An ordered list of segments, written `Prompt.of(text, [document], text, ...)`."""

    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, *parts: Sequence[int] | tuple[Sequence[int]]) -> "Prompt":
        """Lists of token ids are text; a tuple of one list is a document."""
        return cls(
            tuple(("document", part[0]) if isinstance(part, tuple) else ("text", part)
                  for part in parts)
        )  # fmt: skip

    @property
    def input_ids(self) -> list[int]:
        return [token for _, ids in self.segments for token in ids]

    @property
    def document_spans(self) -> list[list[int]]:
        spans, start = [], 0
        for kind, ids in self.segments:
            if kind == "document":
                spans.append([start, start + len(ids)])
            start += len(ids)
        return spans

    @property
    def num_document_tokens(self) -> int:
        return sum(len(ids) for kind, ids in self.segments if kind == "document")

    def __len__(self) -> int:
        return len(self.input_ids)

    def then(self, ids: Sequence[int]) -> "Prompt":
        """This prompt with text appended: an answer, or the next turn."""
        return Prompt((*self.segments, ("text", list(ids))))

    def request(self) -> dict[str, Any]:
        """The fields of a request; without documents, those of a stock request."""
        if not self.document_spans:
            return {"input_ids": self.input_ids}
        return {"input_ids": self.input_ids, "document_spans": self.document_spans}
