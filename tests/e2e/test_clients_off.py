"""With `--chunk-cache off`, what stock SGLang would refuse or ignore gets a clear 400."""

from typing import Any

import pytest

from ..engines import Server, ServerSlot
from .clients import FIRST, QUESTION, document, text

pytestmark = pytest.mark.server

DOCUMENT = {"type": "document", "source": {"type": "text", "data": FIRST}}
RESULT = {"type": "search_result", "source": "x", "title": "y", "content": [text(FIRST)]}


@pytest.fixture
def server(server_slot: ServerSlot) -> Server:
    return server_slot.get()


def turn(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages": turn(document(FIRST), text(QUESTION))}),
        ("/v1/chat/completions", {"messages": turn(text(QUESTION)), "documents": [FIRST]}),
        ("/v1/completions", {"segments": [{"text": QUESTION}]}),
        ("/v1/responses", {"input": turn(document(FIRST))}),
        ("/v1/responses", {"input": QUESTION, "documents": [FIRST]}),
        ("/v1/messages", {"messages": turn(DOCUMENT, text(QUESTION)), "max_tokens": 4}),
    ],
    ids=["part", "documents", "segments", "responses part", "responses documents", "block"],
)
def test_refused(server: Server, path: str, fields: dict[str, Any]) -> None:
    response = server.post(path, model="default", **fields)
    assert response.status_code == 400
    assert "started without --chunk-cache lazy" in response.text


def test_everything_else_is_stock(server: Server) -> None:
    """Search results are text, and fields that SGLang does not know are ignored."""
    blocks = turn(RESULT, text(QUESTION))
    response = server.post("/v1/messages", model="default", messages=blocks, max_tokens=4)
    written = f"Title: y\nSource: x\nContent: {FIRST}"
    chat = {"model": "default", "messages": turn(text(written), text(QUESTION)), "max_tokens": 4}
    expected = server.post("/v1/chat/completions", chunk_context="none", documents=[], **chat)
    assert response.status_code == expected.status_code == 200
    usage, expected_usage = response.json()["usage"], expected.json()["usage"]
    assert usage["input_tokens"] == expected_usage["prompt_tokens"]
    assert expected_usage["prompt_tokens_details"] is None
