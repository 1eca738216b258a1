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
    }
    block = parse_block({"type": "document", "source": text_source("b\n"), "title": "a"}, "x")
    assert block is not None
    assert texts | {block.text} == {"a\nb\n"}


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
        (
            {
                "type": "search_result",
                "source": {"url": "https://example.com", "text": "x"},
                "content": [{"type": "text", "text": "t"}],
            },
            "https://example.com\nt",
        ),
        ({"type": "search_result", "source": {"text": "s"}, "content": "t"}, "s\nt"),
        ({"type": "search_result", "source": {}, "content": "t"}, "t"),
    ],
    ids=[
        "context",
        "content",
        "content blocks",
        "search result",
        "source with URL",
        "source with text",
        "empty source",
    ],
)
def test_blocks(block: dict[str, Any], text: str) -> None:
    document = parse_block(block, "x")
    assert document is not None and document.text == text


@pytest.mark.parametrize("content", [None, [], "", [{"type": "text", "text": ""}]])
def test_search_without_hits_is_no_document(content: Any) -> None:
    block = {"type": "search_result", "source": "s", "title": "t", "content": content}
    assert parse_block(block, "x") is None
    del block["content"]
    assert parse_block(block, "x") is None


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"source": 7, "content": "t"}, "x\\['source'\\] must be a string"),
        ({"source": {"url": 7}, "content": "t"}, "x\\['source'\\]\\['url'\\] must be a string"),
        ({"source": "s", "content": {}}, "must be a string or a list of text blocks"),
    ],
)
def test_search_results_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_block({"type": "search_result", **fields}, "x")
