"""The Responses API with documents.

Content parts pass through SGLang's conversion to a chat request as they are. What it
would drop is carried to that request, or refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sglang_lazy.config import config_of
from sglang_lazy.patches.openai_chat import CARRIED
from sglang_lazy.patches.registry import around
from sglang_lazy.surfaces import NOT_ENABLED
from sglang_lazy.surfaces.options import options_of


@around("sglang.srt.entrypoints.openai.serving_responses.OpenAIServingResponses.create_responses")
async def create_responses(
    original: Callable[..., Any], self: Any, request: Any, *args: Any, **kwargs: Any
) -> Any:
    carried = {"documents": getattr(request, "documents", None), **options_of(request)}
    has_parts = any(_has_documents(item) for item in _items(request))
    if has_parts or any(value is not None for value in carried.values()):
        if fault := _fault(self, request, has_parts or bool(carried["documents"])):
            return self.create_error_response(fault)
        # SGLang makes a chat request of this one on the way; a copy of its own tells that.
        self = copy.copy(self)
        self.__dict__[CARRIED] = carried
    return await original(self, request, *args, **kwargs)


def _fault(self: Any, request: Any, has_documents: bool) -> str | None:
    if not has_documents:
        return None
    if not config_of(self.tokenizer_manager.server_args).enabled:
        return NOT_ENABLED
    if self.use_harmony:
        return "this model's messages are encoded without a chat template, which documents need"
    for item in _items(request):
        if _has_documents(item) and _get(item, "role") in ("system", "developer"):
            return (
                "a system or developer message cannot have documents in the Responses API, which "
                "joins them into one text; put the documents into a user message"
            )
    return None


def _items(request: Any) -> Any:
    return request.input if isinstance(request.input, list) else ()


def _has_documents(item: Any) -> bool:
    parts = _get(item, "content") or _get(item, "output")
    return isinstance(parts, list) and any(_get(part, "type") == "document" for part in parts)


def _get(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else getattr(item, key, None)
