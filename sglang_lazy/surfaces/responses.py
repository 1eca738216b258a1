"""The ``input`` of the Responses API, and documents that join it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang_lazy.surfaces.documents import ListedDocument
from sglang_lazy.surfaces.messages import AFTER_PLACED_DOCUMENTS

_TEXTS = ("text", "input_text")


def items(given: Any) -> Sequence[Any]:
    """The items of an ``input``; a text has none."""
    return given if isinstance(given, list) else ()


def get(item: Any, key: str) -> Any:
    """A field of an item or part, which is an object or a dictionary."""
    return item.get(key) if isinstance(item, dict) else getattr(item, key, None)


def with_documents(given: Any, documents: Sequence[ListedDocument]) -> list[Any]:
    """An ``input`` with top-level documents as parts of its first user message.

    They stand as ``messages.place`` puts them. Being part of the input, they are stored
    with it, so that a later turn finds them where they were.

    Raises:
        ValueError: the input has no user message.
    """
    written: list[Any] = (
        [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    )
    parts: list[Any] = [{"type": "document", "text": d.document.text} for d in documents]
    for i, item in enumerate(written):
        if get(item, "role") != "user":
            continue
        item = dict(item) if isinstance(item, dict) else item.model_dump(exclude_none=True)
        content = item.get("content") or []
        rest = [_text(content)] if isinstance(content, str) else list(content)
        text = ""
        if rest and get(rest[0], "type") in _TEXTS:
            text = get(rest.pop(0), "text")
        item["content"] = [*parts, _text(AFTER_PLACED_DOCUMENTS + text), *rest]
        written[i] = item
        return written
    raise ValueError(
        "documents needs a user message in the same input: this model's chat template takes no "
        "documents, so they are put in front of the input's first user message"
    )


def _text(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}
