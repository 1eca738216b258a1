"""Completions given as ``segments``, or as text with options for marked documents."""

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
    elif any(value is not None for value in options_of(request).values()):
        try:
            _attach_options(self, request)
        except ValueError as e:
            return str(e)
    return original(self, request)


def _attach_options(self: Any, request: Any) -> None:
    """Send options along with a prompt that separators may find documents in."""
    config = config_of(self.tokenizer_manager.server_args)
    if not config.enabled:
        return
    options = options_of(request)
    if not config.chunk_separators:
        refuse_options_without_documents(options)
    if self.template_manager.completion_template_name is not None:
        names = " and ".join(name for name, value in options.items() if value is not None)
        raise ValueError(f"{names} cannot be combined with the server's completion template")
    prompt = request.prompt
    is_text = isinstance(prompt, str) or all(isinstance(p, str) for p in prompt)
    if not is_text:
        refuse_options_without_documents(options)
    request.prompt, _ = structured_inputs(prompt, None, None, None, **options)


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
