"""Anthropic's blocks on their way through SGLang's conversion to a chat request."""

from typing import Any

import pytest

from sglang_lazy.patches.anthropic_protocol import AnthropicMessagesRequest
from sglang_lazy.patches.anthropic_serving import _with_placeholders
from sglang_lazy.surfaces.placeholders import Placeholders

DOCUMENT = {"type": "document", "source": {"type": "text", "data": "x"}}


def converted(*blocks: Any) -> Any:
    messages = [{"role": "user", "content": list(blocks)}]
    request = AnthropicMessagesRequest(model="m", max_tokens=1, messages=messages)
    return _with_placeholders(request, Placeholders("")).messages[0].content


def tool_result(*content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "a", "content": list(content)}


def test_search_without_hits_is_left_alone() -> None:
    for content in (None, []):
        block = {"type": "search_result", "source": {"url": "u"}, "content": content}
        (kept,) = converted(block)
        assert kept.type == "search_result" and kept.source == {"url": "u"}


def test_tool_result_in_a_tool_result() -> None:
    """SGLang leaves it out: what it says is lost, and a document must not be."""
    (kept,) = converted(tool_result(tool_result({"type": "text", "text": "x"})))
    assert kept.content[0].content[0].text == "x"
    (kept,) = converted(tool_result(DOCUMENT))
    assert kept.content[0].type == "text"
    with pytest.raises(
        ValueError, match=r"content\[0\].content\[0\] is a tool_result inside a tool"
    ):
        converted(tool_result(tool_result(DOCUMENT)))
