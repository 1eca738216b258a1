"""Completions given as ``segments``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.config import config_of
from sglang_lazy.patches.registry import around
from sglang_lazy.request.batch import structured_inputs
from sglang_lazy.surfaces import NOT_ENABLED
from sglang_lazy.surfaces.options import options_of, refuse_options_without_documents


@around(
    "sglang.srt.entrypoints.openai.serving_completions.OpenAIServingCompletion._validate_request"
)
def validate_request(original: Callable[..., Any], self: Any, request: Any) -> str | None:
    """Make ``segments`` the prompt; SGLang answers 400 with what is returned."""
    if getattr(request, "segments", None) is not None:
        try:
            request.prompt = _prompt(self, request)
        except ValueError as e:
            return str(e)
        request.segments = None
    elif config_of(self.tokenizer_manager.server_args).enabled:
        try:
            refuse_options_without_documents(options_of(request))
        except ValueError as e:
            return str(e)
    return original(self, request)


def _prompt(self: Any, request: Any) -> Any:
    if not config_of(self.tokenizer_manager.server_args).enabled:
        raise ValueError(NOT_ENABLED)
    if self.template_manager.completion_template_name is not None:
        raise ValueError("segments cannot be combined with the server's completion template")
    if request.suffix:
        raise ValueError("suffix cannot be combined with segments")
    text, _ = structured_inputs(
        request.prompt or None, None, request.segments, None, **options_of(request)
    )
    return text
