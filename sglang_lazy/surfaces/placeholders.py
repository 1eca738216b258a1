"""Documents as placeholders while a chat template is rendered.

A template sees a short placeholder for each document, and the rendered text is cut at
them. Nobody can write one by hand: each carries a random number drawn when the request
has arrived, which is checked to occur in none of its text. So nothing inside a text or a
document can turn into structure, and a template cannot trim or cut a document.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from functools import partial

from sglang_lazy.request.segments import TextSegment
from sglang_lazy.surfaces.documents import Document

_CANARY = "aA  \"'\\\n  <&>é"
"""What filters change if they change anything: quotes, line breaks, markup, case, accents."""


def _json_string(text: str, ensure_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]


_FORMS: tuple[Callable[[str], str], ...] = (
    str,
    partial(_json_string, ensure_ascii=False),
    partial(_json_string, ensure_ascii=True),
)
"""What a template may make of a document: nothing, or a string in JSON."""


def _ends(nonce: str) -> tuple[str, str]:
    """What is left of a placeholder that was cut."""
    return nonce[:12], nonce[-12:]


class Placeholders:
    """The placeholders of one request.

    Args:
        user_text: everything that the request says, in any order and any notation that
            keeps letters and digits; no placeholder will occur in it.
    """

    def __init__(self, user_text: str) -> None:
        nonce = secrets.token_hex(16)
        while any(end in user_text for end in _ends(nonce)):
            nonce = secrets.token_hex(16)
        self._nonce = nonce
        self._pattern = re.compile(rf"{nonce}:([0-9]{{1,6}}):(.*?):{nonce}", re.DOTALL)
        self._documents: list[Document] = []
        self._found: set[int] = set()

    def put(self, document: Document) -> str:
        """A placeholder that stands for ``document``."""
        self._documents.append(document)
        return f"{self._nonce}:{len(self._documents) - 1}:{_CANARY}:{self._nonce}"

    def are_in(self, text: str) -> bool:
        return self._nonce in text

    def split(self, text: str) -> list[str | Document]:
        """Take text apart into plain text and documents, in the order in which they stand.

        Where a placeholder was written as a JSON string, so is its document.

        Raises:
            ValueError: a document has been found before, or its placeholder was changed.
        """
        pieces = self._pattern.split(text)
        parts: list[str | Document] = [pieces[0]]
        for index, inside, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            parts += [self._document(int(index), inside), after]
        text_parts = [part for part in parts if isinstance(part, str)]
        if any(end in part for part in text_parts for end in _ends(self._nonce)):
            raise ValueError("this model's chat template cuts a document")
        return [part for part in parts if part]

    def check_complete(self) -> None:
        """Raise a ValueError if a document has not been found."""
        for index, document in enumerate(self._documents):
            if index not in self._found:
                raise ValueError(
                    f"{document.where} cannot be served: this model's chat template leaves it "
                    "out or changes it"
                )

    def segments(self, rendered: str) -> list[TextSegment]:
        """A whole prompt as segments; each document must be in it once.

        Raises:
            ValueError: a document was left out, repeated or changed.
        """
        self._found.clear()
        segments = [
            TextSegment(part.text, True) if isinstance(part, Document) else TextSegment(part, False)
            for part in self.split(rendered)
        ]
        self.check_complete()
        return segments

    def _document(self, index: int, inside: str) -> Document:
        if index >= len(self._documents):
            raise ValueError("this model's chat template changes a document")
        document = self._documents[index]
        if index in self._found:
            raise ValueError(
                f"{document.where} cannot be served: this model's chat template repeats it"
            )
        self._found.add(index)
        for form in _FORMS:
            if form(_CANARY) == inside:
                return document._replace(text=form(document.text))
        raise ValueError(
            f"{document.where} cannot be served: this model's chat template changes it"
        )
