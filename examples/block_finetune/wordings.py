"""How facts are stated and asked for: the sentences of ``sentences/``, by attribute and split.

A template has the placeholders ``{S}`` (the thing), ``{V}`` (the value), ``{N}`` (the thing without
its article) and the attribute's own words, such as ``{pp}`` ("built"); ``[a|b]`` stands for either
of its alternatives. No sentence of ``test`` or ``fresh`` is trained on.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from vocabulary import Split

_SENTENCES = Path(__file__).parent / "sentences"
_FRAMED = 0.4
"""Share of training questions that are made of a frame ("Do you know {q}?") and a part."""


class Wording(NamedTuple):
    """The sentences of one attribute in one split.

    Attributes:
        statements: sentences that state a fact.
        questions: whole questions for its value.
        clauses: indirect questions, parts of longer ones ("who built {S}").
        phrases: names of what is asked for ("the builder of {S}").
        noun_phrases: stand for the value in a question about it ("whoever built {S}").
    """

    statements: list[str]
    questions: list[str]
    clauses: list[str] = []  # noqa: RUF012
    phrases: list[str] = []  # noqa: RUF012
    noun_phrases: list[str] = []  # noqa: RUF012

    def draw_question(self, rng: random.Random) -> str:
        """A question, as it is or put together."""
        framed = self._framed()
        if not framed or rng.random() >= _FRAMED:
            return rng.choice(self.questions)
        frames, parts = rng.choice(framed)
        return rng.choice(frames).replace("{q}", rng.choice(parts))

    def all_questions(self) -> Iterator[str]:
        """Every question that can be drawn."""
        yield from self.questions
        for frames, parts in self._framed():
            yield from (frame.replace("{q}", part) for frame, part in product(frames, parts))

    def _framed(self) -> tuple[tuple[list[str], list[str]], ...]:
        """Frames, with the parts that they take; only training has them."""
        if not self.clauses:
            return ()
        return (
            (FRAMES["clause_frames"]["train"], self.clauses),
            (FRAMES["phrase_frames"]["train"], self.phrases),
        )


def _load() -> tuple[dict[str, dict[Split, Wording]], dict[str, dict[Split, list[str]]]]:
    train = {
        path.stem.replace("_", " "): tomllib.loads(path.read_text("utf-8"))
        for path in (_SENTENCES / "train").glob("*.toml")
    }
    tables: dict[Split, dict[str, dict[str, list[str]]]] = {
        "train": train,
        "test": tomllib.loads((_SENTENCES / "test.toml").read_text("utf-8")),
        "fresh": tomllib.loads((_SENTENCES / "fresh.toml").read_text("utf-8")),
    }
    frames: dict[str, dict[Split, list[str]]] = {}
    wordings: dict[str, dict[Split, Wording]] = {}
    for split, attributes in tables.items():
        for name, lists in attributes.pop("frames").items():
            frames.setdefault(name, {})[split] = lists
        for name, sentences in attributes.items():
            wordings.setdefault(name, {})[split] = Wording(**sentences)
    return wordings, frames


WORDINGS, FRAMES = _load()
"""By attribute and split; and what is asked and said of anything, by use and split."""
