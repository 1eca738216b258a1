"""Anthropic messages with ``document`` and ``search_result`` blocks.

SGLang turns a message request into a chat request. Documents go through that as
placeholders in text blocks and come out as the document parts of chat messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.config import config_of
from sglang_lazy.patches.openai_protocol import DocumentPart
from sglang_lazy.patches.registry import around
from sglang_lazy.surfaces import NOT_ENABLED
from sglang_lazy.surfaces.anthropic import BLOCK_TYPES, parse_block
from sglang_lazy.surfaces.documents import Document
from sglang_lazy.surfaces.options import options_of
from sglang_lazy.surfaces.placeholders import Placeholders

_TARGET = "sglang.srt.entrypoints.anthropic.serving.AnthropicServing"


@around(f"{_TARGET}._convert_to_chat_completion_request")
def convert_to_chat_completion_request(
    original: Callable[..., Any], self: Any, request: Any
) -> Any:
    chat = self.openai_serving_chat
    config = config_of(chat.tokenizer_manager.server_args)
    if not config.enabled:
        if any(_has_block(content, ("document",)) for content in _contents(request)):
            raise ValueError(NOT_ENABLED)
        return original(self, request)

    has_documents = any(_has_block(content, BLOCK_TYPES) for content in _contents(request))
    if has_documents:
        placeholders = Placeholders(str(request.model_dump()))
        chat_request = original(self, _with_placeholders(request, placeholders))
        _restore_documents(chat_request, placeholders)
    else:
        chat_request = original(self, request)
    options = options_of(request)
    for name, value in options.items():
        setattr(chat_request, name, value)
    is_ours = (
        has_documents or config.chunk_separators or any(v is not None for v in options.values())
    )
    if is_ours and chat_request.messages:  # SGLang has a sentence for none
        for name in ("cache_salt", "extra_key"):
            value = getattr(request, name)
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name} must be a string; got {type(value).__name__}")
            setattr(chat_request, name, value)
        # Rendered here, where SGLang answers a ValueError with 400; later it would be 500.
        is_multimodal = chat.tokenizer_manager.model_config.is_multimodal
        chat_request._processed = chat._process_messages(chat_request, is_multimodal)
    return chat_request


def _contents(request: Any) -> Any:
    """The contents of the system prompt and of every message."""
    yield request.system
    yield from (message.content for message in request.messages)


def _has_block(content: Any, types: tuple[str, ...]) -> bool:
    return isinstance(content, list) and any(
        block.type in types or _has_block(getattr(block, "content", None), types)
        for block in content
        if not isinstance(block, dict)  # the content of a search result
    )


def _with_placeholders(request: Any, placeholders: Placeholders) -> Any:
    """The same request with a text block for each document."""
    messages = [
        message.model_copy(
            update={"content": _write(message.content, f"messages[{i}].content", placeholders)}
        )
        for i, message in enumerate(request.messages)
    ]
    system = _write(request.system, "system", placeholders)
    return request.model_copy(update={"messages": messages, "system": system})


def _write(
    content: Any, where: str, placeholders: Placeholders, in_tool_result: bool = False
) -> Any:
    from sglang.srt.entrypoints.anthropic.protocol import TextBlock

    if not isinstance(content, list):
        return content
    written = []
    for i, block in enumerate(content):
        if block.type in BLOCK_TYPES:
            document = parse_block(block.model_dump(exclude_none=True), f"{where}[{i}]")
            if document is not None:
                block = TextBlock(text=placeholders.put(document))
        elif block.type == "tool_result":
            if in_tool_result and _has_block(block.content, BLOCK_TYPES):
                raise ValueError(
                    f"{where}[{i}] is a tool_result inside a tool_result, which cannot have "
                    "documents"
                )
            inner = _write(block.content, f"{where}[{i}].content", placeholders, True)
            block = block.model_copy(update={"content": inner})
        written.append(block)
    return written


def _restore_documents(chat_request: Any, placeholders: Placeholders) -> None:
    """Put the documents into the chat request, as parts of its messages."""
    for message in chat_request.messages:
        if isinstance(message.content, str) and placeholders.are_in(message.content):
            message.content = _parts(message.content, placeholders)
        elif isinstance(message.content, list):
            message.content = [
                restored
                for part in message.content
                for restored in (
                    _parts(part.text, placeholders)
                    if part.type == "text" and placeholders.are_in(part.text)
                    else [part]
                )
            ]
    placeholders.check_complete()


def _parts(text: str, placeholders: Placeholders) -> list[Any]:
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionMessageContentTextPart

    return [
        DocumentPart(type="document", text=piece.text)
        if isinstance(piece, Document)
        else ChatCompletionMessageContentTextPart(type="text", text=piece)
        for piece in placeholders.split(text)
    ]
