"""Requests with documents that are not well formed: 400, a sentence, and nothing else."""

from typing import Any

import anthropic
import openai
import pytest

from .clients import FIRST, QUESTION, Clients, document, text

pytestmark = pytest.mark.server

USER = {"role": "user", "content": QUESTION}


def chat(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], **fields}


def image() -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


CHAT = {
    "unknown key": (chat(document(FIRST, name="x"), text("?")), "content[0] has the unknown key"),
    "no text": (chat(text("?"), {"type": "document"}), "content[1]['text'] must be a string"),
    "text is no string": (chat(document(7)), "must be a string; got int"),
    "empty": (chat(document(""), text("?")), "is an empty document"),
    "title is no string": (chat(document("x", title=1)), "['title'] must be a string"),
    "image": (chat(document(FIRST), image()), "image"),
    "documents is no list": ({"messages": [USER], "documents": "x"}, "documents must be a list"),
    "documents of numbers": ({"messages": [USER], "documents": [1]}, "documents[0] must be"),
    "empty among documents": (
        {"messages": [USER], "documents": ["x", {"text": ""}]},
        "documents[1] is an empty document",
    ),
    "unknown key in documents": (
        {"messages": [USER], "documents": [{"text": "x", "url": "y"}]},
        "documents[0] has the unknown key url",
    ),
    "bad doc_id": (
        {"messages": [USER], "documents": [{"text": "x", "doc_id": [1]}]},
        "documents[0]['doc_id'] must be",
    ),
    "documents and no user": (
        {"messages": [{"role": "system", "content": "x"}], "documents": ["x"]},
        "needs a user message",
    ),
    "documents twice": (
        {
            "messages": [USER],
            "documents": ["x"],
            "chat_template_kwargs": {"documents": [{"text": "y"}]},
        },
        "not both",
    ),
    "input_ids": (chat(document(FIRST), text("?"), input_ids=[1, 2]), "input_ids cannot be"),
    "continued documents": (
        {
            "messages": [USER, {"role": "assistant", "content": [document(FIRST)]}],
            "continue_final_message": True,
        },
        "continue_final_message cannot",
    ),
    "hidden states": (
        chat(document(FIRST), text("?"), return_hidden_states=True),
        "return_hidden_states cannot be combined",
    ),
    "too many": (chat(*[document("x")] * 257, text("?")), "257 documents; at most 256"),
    "unknown context": (chat(document("x"), text("?"), chunk_context="all"), "must be one of"),
    "call with documents": (
        {"messages": [USER, {"role": "assistant", "tool_calls": [document(FIRST)]}]},
        "tool_calls",
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_chat(clients: Clients, stream: bool) -> None:
    for name, (fields, fault) in CHAT.items():
        with pytest.raises(openai.BadRequestError) as error:
            clients.openai.chat.completions.create(
                model="default",
                messages=fields["messages"],
                stream=stream,
                max_tokens=1,
                extra_body={k: v for k, v in fields.items() if k != "messages"},
            )
        assert fault in error.value.message, name
    assert clients.ask(document(FIRST), text("?")).choices


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"prompt": "x", "segments": [{"text": "x"}]}, "not as several of them"),
        ({"segments": [{"document": "x"}]}, "ends in a document"),
        ({"segments": [{"document": ""}, {"text": "x"}]}, "segments[0] is an empty document"),
        ({"segments": [{"text": "x"}], "suffix": "y"}, "suffix cannot"),
        ({"segments": [{"text": "x"}], "chunk_context": "all"}, "must be one of"),
        ({"prompt": "x", "chunk_context": "all"}, "must be one of"),
    ],
    ids=["twice", "no text", "empty", "suffix", "context", "context of text"],
)
def test_completions(clients: Clients, fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        clients.openai.completions.create(
            model="default", prompt=fields.pop("prompt", ""), extra_body=fields
        )
    assert fault in error.value.message


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"input": [{"role": "user", "content": [document("")]}]}, "empty document"),
        ({"input": [{"role": "developer", "content": [document("x")]}]}, "put the documents into"),
        ({"input": "x", "documents": [""]}, "documents[0] is an empty document"),
        ({"input": "x", "documents": ["x"], "model": None}, "model"),
    ],
    ids=["empty", "developer", "documents", "no model"],
)
def test_responses(clients: Clients, fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        clients.openai.responses.create(
            model="default", input=fields.pop("input"), extra_body=fields
        )
    assert fault in error.value.message


def block(source: Any, **more: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **more}


WORDS = {"type": "text", "media_type": "text/plain", "data": "x"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (block(PDF), "source of type 'base64'; only text"),
        (block({**WORDS, "data": ""}), "messages[0].content[0] is an empty document"),
        (block({**WORDS, "media_type": "text/html"}), "must be text/plain"),
        (block(WORDS, name="x"), "unknown key name"),
        (block(WORDS, title=7), "['title'] must be a string"),
        (block(WORDS, citations={"enabled": True}), "citations, which are not supported"),
        (block(None), "['source'] must be an object"),
        (block({"type": "content", "content": [{"type": "image"}]}), "must be a text block"),
        (
            {"type": "search_result", "source": {"url": 7}, "content": [text("x")]},
            "messages[0].content[0]['source']['url'] must be a string",
        ),
        (
            {"type": "tool_result", "tool_use_id": "a", "content": [block(PDF)]},
            "messages[0].content[0].content[0] has a source",
        ),
        ({"type": "text", "text": "x", "chunk_context": "all"}, "must be one of"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_anthropic(clients: Clients, content: Any, fault: str, stream: bool) -> None:
    extra = {}
    if context := content.get("chunk_context"):
        extra, content = {"chunk_context": context}, block(WORDS)
    with pytest.raises(anthropic.BadRequestError) as error:
        clients.anthropic.messages.create(
            model="default",
            max_tokens=4,
            messages=[{"role": "user", "content": [content, text("?")]}],
            stream=stream,
            extra_body=extra,
        )
    assert fault in error.value.message
    assert error.value.body["error"]["type"] == "invalid_request_error"
