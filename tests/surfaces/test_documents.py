"""What a document's text is, in the words of each API."""

from typing import Any

import pytest

from sglang_lazy.surfaces.anthropic import parse_block
from sglang_lazy.surfaces.documents import parse_documents, parse_part


def text_source(data: str) -> dict[str, str]:
    return {"type": "text", "media_type": "text/plain", "data": data}


def test_titled_document_is_the_same_text_everywhere() -> None:
    texts = {
        parse_part({"type": "document", "text": "b\n", "title": "a"}, "part").text,
        parse_documents([{"text": "b\n", "title": "a"}])[0].document.text,
        parse_documents(["a\nb\n"])[0].document.text,
        parse_block({"type": "document", "source": text_source("b\n"), "title": "a"}, "x").text,
    }
    assert texts == {"a\nb\n"}


@pytest.mark.parametrize("title", [None, ""])
def test_no_title_no_line(title: str | None) -> None:
    assert parse_part({"type": "document", "text": " b ", "title": title}, "part").text == " b "


def test_where_a_document_is_told() -> None:
    first, second = parse_documents(["a", {"text": "b", "doc_id": 3}])
    assert (first.document.where, dict(first.for_template)) == ("documents[0]", {})
    assert (second.document.where, dict(second.for_template)) == ("documents[1]", {"doc_id": 3})


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "document", "source": text_source("t"), "context": "c", "title": "a"}, "a\nc\nt"),
        ({"type": "document", "source": {"type": "content", "content": "t"}}, "t"),
        (
            {
                "type": "document",
                "source": {
                    "type": "content",
                    "content": [{"type": "text", "text": "t"}, {"type": "text", "text": "u"}],
                },
                "citations": {"enabled": False},
                "cache_control": {"type": "ephemeral"},
            },
            "t\nu",
        ),
        (
            {
                "type": "search_result",
                "source": "https://example.com",
                "title": "a",
                "content": [{"type": "text", "text": "t"}],
            },
            "a\nhttps://example.com\nt",
        ),
    ],
    ids=["context", "content", "content blocks", "search result"],
)
def test_blocks(block: dict[str, Any], text: str) -> None:
    assert parse_block(block, "x").text == text
