"""Request models of the Anthropic endpoint, with ``document`` blocks.

As in ``openai_protocol``, models keep their names and what is new is read loosely.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sglang.srt.entrypoints.anthropic import protocol as stock

from sglang_lazy.patches.registry import replace_class
from sglang_lazy.surfaces.options import RequestOptions

_TARGET = "sglang.srt.entrypoints.anthropic.protocol"


class DocumentBlock(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: Literal["document"]


class SearchResultBlock(stock.SearchResultBlock):
    model_config = ConfigDict(extra="allow")


class ToolResultBlock(stock.ToolResultBlock):
    content: str | list[ContentBlock] | None = None


ContentBlock = Annotated[
    stock.TextBlock
    | stock.ImageBlock
    | stock.ToolUseBlock
    | ToolResultBlock
    | stock.ToolReferenceBlock
    | SearchResultBlock
    | stock.ThinkingBlock
    | stock.RedactedThinkingBlock
    | DocumentBlock,
    Field(discriminator="type"),
]
ToolResultBlock.model_rebuild()


class AnthropicMessage(stock.AnthropicMessage):
    content: str | list[ContentBlock]


class AnthropicMessagesRequest(RequestOptions, stock.AnthropicMessagesRequest):
    messages: list[AnthropicMessage]
    system: str | list[ContentBlock] | None = None
    # As in chat completions: SGLang has no such fields here, and documents need them.
    cache_salt: Any = None
    extra_key: Any = None


class AnthropicCountTokensRequest(stock.AnthropicCountTokensRequest):
    messages: list[AnthropicMessage]
    system: str | list[ContentBlock] | None = None


for _model in (AnthropicMessagesRequest, AnthropicCountTokensRequest):
    replace_class(f"{_TARGET}.{_model.__name__}", _model)
