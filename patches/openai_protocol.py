"""Request models of the OpenAI endpoints, with documents and the options that go with them.

The models keep their names, which SGLang's error messages show. What is new is read
loosely here and checked when the request is served, so that a client gets one sentence
instead of a list of alternatives.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator
from sglang.srt.entrypoints.openai import protocol as stock

from sglang_lazy.patches.registry import replace_class
from sglang_lazy.surfaces.options import RequestOptions

_TARGET = "sglang.srt.entrypoints.openai.protocol"


class DocumentPart(BaseModel):
    """A content part ``{"type": "document", "text": ..., "title"?: ...}``."""

    model_config = ConfigDict(extra="allow")

    type: Literal["document"]
    text: Any = None
    title: Any = None


_ContentPart: TypeAlias = stock.ChatCompletionMessageContentPart | DocumentPart


class ChatCompletionMessageGenericParam(stock.ChatCompletionMessageGenericParam):
    content: str | list[_ContentPart] | None = Field(default=None)


class ChatCompletionMessageUserParam(stock.ChatCompletionMessageUserParam):
    content: str | list[_ContentPart]


class ChatCompletionRequest(RequestOptions, stock.ChatCompletionRequest):
    messages: list[ChatCompletionMessageGenericParam | ChatCompletionMessageUserParam]
    documents: Any = None

    _processed: Any = PrivateAttr(default=None)
    """What ``_process_messages`` made of the request, where that was needed early."""


class CompletionRequest(RequestOptions, stock.CompletionRequest):
    segments: Any = None

    @model_validator(mode="before")
    @classmethod
    def _segments_for_prompt(cls, values: Any) -> Any:
        """``segments`` stand in for ``prompt``; clients that insist on one send "" or null."""
        if isinstance(values, dict) and values.get("segments") is not None:
            return {**values, "prompt": values.get("prompt") or ""}
        return values


class ResponsesRequest(RequestOptions, stock.ResponsesRequest):
    documents: Any = None


for _model in (ChatCompletionRequest, CompletionRequest, ResponsesRequest):
    replace_class(f"{_TARGET}.{_model.__name__}", _model)
