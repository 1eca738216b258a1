"""Anthropic's blocks on their way through SGLang's conversion to a chat request."""

from pathlib import Path
from typing import Any

import pytest
from sglang.srt.entrypoints.anthropic import serving as serving_module
from transformers import AutoTokenizer

from sglang_lazy.config import LazyConfig
from sglang_lazy.patches.anthropic_protocol import AnthropicMessagesRequest
from sglang_lazy.patches.anthropic_serving import (
    _with_placeholders,
    convert_to_chat_completion_request,
)
from sglang_lazy.patches.openai_protocol import ChatCompletionRequest
from sglang_lazy.surfaces.placeholders import Placeholders

from .chat_templates import QWEN_2_5
from .rendering import Rendering

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


def test_no_message_is_left_to_sglang(
    real_model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses that in a sentence; there is nothing that could be rendered before."""
    monkeypatch.setattr(serving_module, "ChatCompletionRequest", ChatCompletionRequest)
    tokenizer = AutoTokenizer.from_pretrained(real_model_dir)
    separated = LazyConfig("lazy", chunk_separators=("#",))
    serving = serving_module.AnthropicServing(Rendering(tokenizer, QWEN_2_5, separated)._serving())
    messages = [{"role": "user", "content": []}]
    request = AnthropicMessagesRequest(model="m", max_tokens=1, messages=messages)
    original = serving_module.AnthropicServing._convert_to_chat_completion_request
    assert convert_to_chat_completion_request(original, serving, request).messages == []
