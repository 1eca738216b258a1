"""Cache salt and extra key of OpenAI requests, told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.config import config_of
from sglang_lazy.patches.registry import around
from sglang_lazy.request.tenant import TenantKey


@around("sglang.srt.entrypoints.openai.serving_base.OpenAIServingBase._compute_extra_key")
def compute_extra_key(original: Callable[..., Any], self: Any, request: Any) -> Any:
    if not config_of(self.tokenizer_manager.server_args).enabled:
        return original(self, request)
    try:
        joined = original(self, request)
    except TypeError as e:  # a list; SGLang would answer 500
        raise ValueError(str(e).removeprefix("Value of ")) from None
    if joined is None:
        return None
    cache_salt = getattr(request, "cache_salt", None)
    return TenantKey(joined, cache_salt, getattr(request, "extra_key", None))
