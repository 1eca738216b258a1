"""Random prompts of text and documents, in pieces."""

import random
from typing import Any

from ..e2e.prompts import sentences
from .pieces import Piece, merged

MAX_PROMPT_TOKENS = 230
"""With answer, sink and heads it fits into the pool however badly that is cut up."""

DOCUMENT_TOKENS = (1, 2, 7, 15, 16, 17, 24, 33, 47, 48, 49, 64, 90, 130)
PREAMBLES = ("Answer from the notes.", "Read:\n", "You are careful and answer in one word. " * 4)


class Prompts:
    """
    Args:
        rng: everything random comes from it.
        tokenizer: the model's.
    """

    def __init__(self, rng: random.Random, tokenizer: Any) -> None:
        self._rng = rng
        self._tokenizer = tokenizer
        self._documents = [self._document() for _ in range(16)]

    def replace_document(self) -> None:
        """One of the documents goes out of use, another one comes in."""
        self._documents[self._rng.randrange(len(self._documents))] = self._document()

    def text(self, num_words: int) -> str:
        """The beginning of a random story."""
        text = ""
        for sentence in sentences(self._rng.randrange(10**6)):
            text += sentence
            if len(words := text.split(" ")) > num_words:
                return " ".join(words[:num_words])
        raise AssertionError("unreachable")

    def length_of(self, pieces: list[Piece]) -> int:
        """In tokens, without earlier answers; pieces are text or encoded."""
        return sum(self._length(c) if isinstance(c, str) else len(c) for _, c in pieces)

    def pieces(self, room: int = MAX_PROMPT_TOKENS) -> list[Piece]:
        """Text and documents by turns, ending in text; some without documents."""
        rng = self._rng
        question = " " + self.text(rng.randint(1, 9))
        room -= self._length(question)
        pieces: list[Piece] = []
        if rng.random() < 0.8:
            pieces.append(["text", rng.choice(PREAMBLES) if rng.random() < 0.7 else self.text(9)])
            room -= self._length(pieces[0][1])
        weights = [1 / (1 + i) for i in range(len(self._documents))]  # Zipf
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 5))):
            document = rng.choices(self._documents, weights)[0]
            if (room := room - self._length(document)) < 0:
                break
            pieces.append(["document", document])
            if rng.random() < 0.2 and room > 20:
                pieces.append(["text", "\n\nThen: " + self.text(2)])
                room -= self._length(pieces[-1][1])
        return merged([*pieces, ["text", question]])

    def encoded(self, pieces: list[Piece]) -> list[Piece]:
        """The same, with token ids for text."""
        encode = self._tokenizer.encode
        return [[kind, encode(text, add_special_tokens=False)] for kind, text in pieces]

    def _document(self) -> str:
        """Text of one of several lengths in tokens; some begin like others."""
        rng = self._rng
        num_tokens = rng.choice(DOCUMENT_TOKENS)
        head = "Belka sold the violin in Lodz in 1871. " if rng.random() < 0.3 else ""
        ids = self._tokenizer.encode(head + self.text(120), add_special_tokens=False)
        return self._tokenizer.decode(ids[:num_tokens])

    def _length(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))
