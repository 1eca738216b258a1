"""The Responses API with documents.

Content parts pass through SGLang's conversion to a chat request as they are. What it
would drop becomes parts, is carried to that request, or is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sglang_lazy.config import config_of
from sglang_lazy.patches.openai_chat import CARRIED, template_takes_documents
from sglang_lazy.patches.registry import around
from sglang_lazy.surfaces import NOT_ENABLED
from sglang_lazy.surfaces.documents import parse_documents
from sglang_lazy.surfaces.options import options_of
from sglang_lazy.surfaces.responses import get, items, with_documents


@around("sglang.srt.entrypoints.openai.serving_responses.OpenAIServingResponses.create_responses")
async def create_responses(
    original: Callable[..., Any], self: Any, request: Any, *args: Any, **kwargs: Any
) -> Any:
    carried = {"documents": getattr(request, "documents", None), **options_of(request)}
    has_parts = any(_has_documents(item) for item in items(request.input))
    is_ours = has_parts or any(value is not None for value in carried.values())
    if is_ours:
        try:
            _check(self, request, has_parts or bool(carried["documents"]))
            if carried["documents"] and not template_takes_documents(self):
                listed = parse_documents(carried["documents"])
                request.input = with_documents(request.input, listed)
                carried["documents"] = None
        except ValueError as e:
            return self.create_error_response(str(e))
    if is_ours or config_of(self.tokenizer_manager.server_args).chunk_separators:
        # SGLang makes a chat request of this one on the way; a copy of its own tells that.
        self = _copy(self)
        self.__dict__[CARRIED] = carried
    return await original(self, request, *args, **kwargs)


def _copy(serving: Any) -> Any:
    """A copy whose error messages lack the exception's cause, which SGLang adds to them even
    where it is None."""
    create_error_response = serving.create_error_response

    def without_none(message: str, *args: Any, **kwargs: Any) -> Any:
        return create_error_response(message.removesuffix(" None"), *args, **kwargs)

    serving = copy.copy(serving)
    serving.create_error_response = without_none
    return serving


def _check(self: Any, request: Any, has_documents: bool) -> None:
    """Raise a ValueError if the request's documents cannot be served here."""
    if not has_documents:
        return
    if not config_of(self.tokenizer_manager.server_args).enabled:
        raise ValueError(NOT_ENABLED)
    if self.use_harmony:
        raise ValueError(
            "this model's messages are encoded without a chat template, which documents need"
        )
    _, adapter = self._parse_model_parameter(request.model or "")
    if adapter is not None and self.tokenizer_manager.server_args.enable_lora:
        raise ValueError(
            f"SGLang's Responses API does not apply LoRA adapters: ask for {adapter} by chat "
            "completions where the request has documents"
        )
    for item in items(request.input):
        if _has_documents(item) and get(item, "role") in ("system", "developer"):
            raise ValueError(
                "a system or developer message cannot have documents in the Responses API, which "
                "joins them into one text; put the documents into a user message"
            )


def _has_documents(item: Any) -> bool:
    parts = get(item, "content") or get(item, "output")
    return isinstance(parts, list) and any(get(part, "type") == "document" for part in parts)
