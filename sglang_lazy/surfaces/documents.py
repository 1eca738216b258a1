"""What clients call a document, and the text that it is computed from.

On every surface a document is its text, verbatim, so that its token ids are the same
everywhere. A title becomes the text's first line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Document(NamedTuple):
    """A document's whole text, title included, and where the request has it."""

    text: str
    where: str


class ListedDocument(NamedTuple):
    """An entry of a request's top-level ``documents``."""

    document: Document
    for_template: Mapping[str, Any]
    """Further fields that chat templates may show: ``doc_id``."""


def document_text(text: str, *headings: str | None) -> str:
    """``text`` with its headings (title, context), a line each, before it."""
    return "\n".join([*(h for h in headings if h), text])


def parse_part(part: Mapping[str, Any], where: str) -> Document:
    """Read a content part ``{"type": "document", "text": str, "title"?: str}``.

    Raises:
        ValueError: with a sentence that names the part and the fault.
    """
    check_keys(part, {"type", "text", "title"}, where)
    return _document(part, where)


def parse_documents(documents: Any) -> list[ListedDocument]:
    """Read a request's top-level ``documents``: strings, or objects with ``text``,
    ``title`` and ``doc_id``, the last two optional.

    Raises:
        ValueError: with a sentence that names the document and the fault.
    """
    if not isinstance(documents, Sequence) or isinstance(documents, (str, bytes)):
        raise ValueError(f"documents must be a list; got {type(documents).__name__}")
    return [_parse_listed(entry, f"documents[{i}]") for i, entry in enumerate(documents)]


def _parse_listed(entry: Any, where: str) -> ListedDocument:
    if isinstance(entry, str):
        return ListedDocument(_document({"text": entry}, where), {})
    if not isinstance(entry, Mapping):
        raise ValueError(
            f"{where} must be a string or an object with 'text'; got {type(entry).__name__}"
        )
    check_keys(entry, {"text", "title", "doc_id"}, where)
    doc_id = entry.get("doc_id")
    if doc_id is not None and (isinstance(doc_id, bool) or not isinstance(doc_id, (str, int))):
        raise ValueError(f"{where}['doc_id'] must be a string or an integer")
    return ListedDocument(_document(entry, where), {} if doc_id is None else {"doc_id": doc_id})


def _document(fields: Mapping[str, Any], where: str) -> Document:
    text = string_field(fields, "text", where)
    title = optional_string_field(fields, "title", where)
    if not text:
        raise ValueError(f"{where} is an empty document")
    return Document(document_text(text, title), where)


def check_keys(fields: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise a ValueError if ``fields`` has a key that is not ``known``."""
    if unknown := sorted(str(key) for key in fields.keys() - known):
        raise ValueError(
            f"{where} has the unknown key {', '.join(unknown)}; "
            f"a document here may have {', '.join(sorted(known))}"
        )


def string_field(fields: Mapping[str, Any], key: str, where: str) -> str:
    """``fields[key]``, which must be there and a string."""
    value = fields.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{where}[{key!r}] must be a string; got {type(value).__name__}")
    return value


def optional_string_field(fields: Mapping[str, Any], key: str, where: str) -> str | None:
    """``fields[key]``, which must be a string where it is given."""
    return None if fields.get(key) is None else string_field(fields, key, where)
