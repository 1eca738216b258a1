"""Anthropic's ``document`` and ``search_result`` blocks, as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_lazy.surfaces.documents import (
    Document,
    check_keys,
    document_text,
    optional_string_field,
    string_field,
)

BLOCK_TYPES = ("document", "search_result")


def parse_block(block: Mapping[str, Any], where: str) -> Document | None:
    """Read a ``document`` block with a source of text, or a ``search_result`` block.

    A title and a context are lines before the document's text, and so is the source of a
    search result, a text or an object with a ``url`` or a ``text``. A search result without
    content, of a search that found nothing, is no document: None. ``cache_control`` says
    nothing here: documents are always cached.

    Raises:
        ValueError: with a sentence that names the block and the fault.
    """
    if block["type"] == "document":
        return _parse_document(block, where)
    return _parse_search_result(block, where)


def _parse_document(block: Mapping[str, Any], where: str) -> Document:
    check_keys(block, {"type", "source", "title", "context", "citations", "cache_control"}, where)
    _refuse_citations(block, where)
    source = block.get("source")
    if not isinstance(source, Mapping):
        raise ValueError(f"{where}['source'] must be an object like {{'type': 'text', ...}}")
    if source.get("type") == "text":
        check_keys(source, {"type", "media_type", "data"}, f"{where}['source']")
        if source.get("media_type", "text/plain") != "text/plain":
            raise ValueError(f"{where}['source']['media_type'] must be text/plain")
        text = string_field(source, "data", f"{where}['source']")
    elif source.get("type") == "content":
        check_keys(source, {"type", "content"}, f"{where}['source']")
        text = _text_of(source.get("content"), f"{where}['source']['content']")
    else:
        raise ValueError(
            f"{where} has a source of type {source.get('type')!r}; only text can be read: "
            "'text', or 'content' with blocks of text"
        )
    title = optional_string_field(block, "title", where)
    context = optional_string_field(block, "context", where)
    return _document(where, text, title, context)


def _parse_search_result(block: Mapping[str, Any], where: str) -> Document | None:
    check_keys(block, {"type", "source", "title", "content", "citations", "cache_control"}, where)
    _refuse_citations(block, where)
    title = optional_string_field(block, "title", where)
    source = block.get("source")
    if isinstance(source, Mapping):
        of_source = f"{where}['source']"
        url = optional_string_field(source, "url", of_source)
        source = url or optional_string_field(source, "text", of_source)
    else:
        source = optional_string_field(block, "source", where)
    content = block.get("content")
    text = "" if content is None else _text_of(content, f"{where}['content']")
    return _document(where, text, title, source) if text else None


def _document(where: str, text: str, *headings: str | None) -> Document:
    if not text:
        raise ValueError(f"{where} is an empty document")
    return Document(document_text(text, *headings), where)


def _text_of(content: Any, where: str) -> str:
    """A text, or blocks of text as lines."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise ValueError(f"{where} must be a string or a list of text blocks")
    texts = []
    for i, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise ValueError(f"{where}[{i}] must be a text block; only text can be read")
        check_keys(part, {"type", "text", "citations", "cache_control"}, f"{where}[{i}]")
        texts.append(string_field(part, "text", f"{where}[{i}]"))
    return "\n".join(texts)


def _refuse_citations(block: Mapping[str, Any], where: str) -> None:
    citations = block.get("citations")
    if isinstance(citations, Mapping) and citations.get("enabled"):
        raise ValueError(f"{where} asks for citations, which are not supported; leave them out")
