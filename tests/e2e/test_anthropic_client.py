"""The official `anthropic` client: `document` and `search_result` blocks."""

from typing import Any

import pytest

from .clients import FIRST, LENGTH, QUESTION, SECOND, SYSTEM, Clients, text, user_turn

pytestmark = pytest.mark.server

TOOL: Any = {"name": "search", "input_schema": {"type": "object", "properties": {}}}


def block(data: str, **more: Any) -> dict[str, Any]:
    source = {"type": "text", "media_type": "text/plain", "data": data}
    return {"type": "document", "source": source, **more}


def result(data: str) -> dict[str, Any]:
    return {
        "type": "search_result",
        "source": "https://example.com",
        "title": "Kettles",
        "content": [{"type": "text", "text": data}],
    }


def fields(*content: Any, **more: Any) -> Any:
    """A request; what releases of the client disagree on goes into the body."""
    messages = [{"role": "user", "content": list(content)}]
    common = {"model": "default", "max_tokens": LENGTH, "extra_body": {"temperature": 0, **more}}
    return {"system": SYSTEM, "messages": messages, **common}


def prompt_tokens(usage: Any) -> int:
    created = usage.cache_creation_input_tokens or 0
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + created


def test_document_blocks_are_segments(clients: Clients) -> None:
    """Also with a title and a context, which are lines before the text."""
    whole = f"Kettles\nfrom a diary\n{SECOND}"
    prompt = user_turn([{"document": FIRST}, {"document": whole}, {"text": QUESTION}])
    expected = clients.segments(prompt)
    cached = {"type": "ephemeral"}
    request = fields(
        block(FIRST, cache_control=cached),
        block(SECOND, title="Kettles", context="from a diary"),
        text(QUESTION),
    )
    message = clients.anthropic.messages.create(**request)
    assert message.content[0].text == expected.text
    assert prompt_tokens(message.usage) == expected.meta_info["prompt_tokens"]
    assert message.usage.cache_read_input_tokens == expected.meta_info["prompt_tokens"] - 1

    with clients.anthropic.messages.stream(**request) as stream:
        streamed = stream.get_final_message()
    assert streamed.content[0].text == expected.text
    assert prompt_tokens(streamed.usage) == expected.meta_info["prompt_tokens"]

    del request["max_tokens"], request["extra_body"]
    counted = clients.anthropic.messages.count_tokens(**request)
    assert counted.input_tokens == expected.meta_info["prompt_tokens"]


def test_search_results_of_a_tool(clients: Clients) -> None:
    """Documents in a tool's result, in a conversation; the next turn finds all of it."""
    whole = f"Kettles\nhttps://example.com\n{SECOND}"
    clients.segments([{"text": "Read."}, {"document": whole}, {"text": QUESTION}])
    request = fields(text(QUESTION))
    request["tools"] = [TOOL]
    use = {"type": "tool_use", "id": "call_1", "name": "search", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "call_1", "content": [result(SECOND)]}
    request["messages"] += [
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [answer]},
    ]
    first = clients.anthropic.messages.create(**request)
    assert first.usage.cache_read_input_tokens >= len(whole) // 8  # that document
    request["messages"] += [
        {"role": "assistant", "content": first.content[0].text},
        {"role": "user", "content": "And where?"},
    ]
    second = clients.anthropic.messages.create(**request)
    total = prompt_tokens(first.usage) + first.usage.output_tokens
    assert second.usage.cache_read_input_tokens >= total - 2
    assert prompt_tokens(second.usage) > total


def test_context_can_be_overridden(clients: Clients) -> None:
    request = fields(block(FIRST), text(QUESTION), chunk_context="none")
    clients.segments([{"document": FIRST}, {"text": "Who?"}], chunk_context="none")
    message = clients.anthropic.messages.create(**request)
    assert message.usage.cache_read_input_tokens  # the document in this mode, and nothing else
    assert prompt_tokens(message.usage) - message.usage.cache_read_input_tokens > 20
