"""Chat messages with documents among their parts, as text with placeholders.

A message's parts are strings, :class:`Document`, and whatever else a message may have,
which passes through. Beside a document nothing is put in: a document and its neighbours
make one string. Text parts that touch no document stay parts of their own, to be joined
as the server always does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sglang_lazy.surfaces.documents import Document, ListedDocument
from sglang_lazy.surfaces.separators import split_text

AFTER_PLACED_DOCUMENTS = "\n\n"
"""Between placed documents and the message they were placed in."""


class Message(NamedTuple):
    """One chat message, its content taken apart."""

    role: str
    parts: tuple[Any, ...]

    @property
    def num_documents(self) -> int:
        return sum(isinstance(part, Document) for part in self.parts)


def split_at_separators(
    messages: Sequence[Message], separators: tuple[str, ...], keep: bool
) -> list[Message]:
    """Split the text parts of all messages but the assistant's at the operator's separators.

    A message without separators is the given object itself.
    """
    split = []
    for i, message in enumerate(messages):
        parts: list[Any] = []
        has_separator = False
        for part in message.parts if message.role != "assistant" else ():
            segments = split_text(part, separators, keep) if isinstance(part, str) else None
            if segments is None:
                parts.append(part)
                continue
            has_separator = True
            where = f"a document in messages[{i}]"
            parts += (Document(s.text, where) if s.is_document else s.text for s in segments)
        split.append(message._replace(parts=tuple(parts)) if has_separator else message)
    return split


def place(messages: Sequence[Message], documents: Sequence[ListedDocument]) -> list[Message]:
    """Put top-level documents where a chat template takes none: in front of the first user
    message, in their order, with a blank line after the last.

    There they stay when the conversation goes on, so that the next turn finds everything
    in the cache.

    Raises:
        ValueError: there is no user message.
    """
    for i, message in enumerate(messages):
        if message.role != "user":
            continue
        parts = list(message.parts)
        text = parts.pop(0) if parts and isinstance(parts[0], str) else ""
        parts = [*(d.document for d in documents), AFTER_PLACED_DOCUMENTS + text, *parts]
        placed = message._replace(parts=tuple(parts))
        return [*messages[:i], placed, *messages[i + 1 :]]
    raise ValueError(
        "documents needs a user message: this model's chat template takes no documents, so they "
        "are put in front of the first user message"
    )


def with_placeholders(parts: Sequence[Any], put: Callable[[Document], str]) -> list[Any]:
    """Parts without documents: each is part of a string, glued to the text beside it."""
    written: list[Any] = []
    previous_is_document = False
    for part in parts:
        is_document = isinstance(part, Document)
        text = put(part) if is_document else part
        touches = (is_document or previous_is_document) and isinstance(text, str)
        if touches and written and isinstance(written[-1], str):
            written[-1] += text
        else:
            written.append(text)
        previous_is_document = is_document
    return written
