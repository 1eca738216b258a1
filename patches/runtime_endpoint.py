"""The frontend language's client: prompts with documents are sent as ``segments``.

SGLang loads no plugins in a client process, so this hook is put in place by
``sglang_lazy.document`` itself.
"""

from __future__ import annotations

import functools
from typing import Any

from sglang.lang.backend import runtime_endpoint

from sglang_lazy.request.segments import SegmentedPrompt


def install() -> None:
    """Wrap the client's HTTP call, once per process."""
    original = runtime_endpoint.http_request
    if getattr(original, "sends_segments", False):
        return

    @functools.wraps(original)
    def http_request(url: str, json: Any = None, **kwargs: Any) -> Any:
        return original(url, json=with_segments(json), **kwargs)

    http_request.sends_segments = True  # type: ignore[attr-defined]
    runtime_endpoint.http_request = http_request


def with_segments(data: Any) -> Any:
    """The same request, with ``segments`` for ``text`` where that holds documents."""
    text = data.get("text") if isinstance(data, dict) else None
    prompts: list[Any] = text if isinstance(text, list) else [text]
    if not any(isinstance(p, SegmentedPrompt) and p.has_documents for p in prompts):
        return data
    rest = {key: value for key, value in data.items() if key != "text"}
    # Programs that fork or select first send what they share, to have it cached.
    only_caches = rest.get("sampling_params", {}).get("max_new_tokens") == 0
    segments = [_to_segments(p, only_caches) for p in prompts]
    return {**rest, "segments": segments if isinstance(text, list) else segments[0]}


def _to_segments(prompt: Any, only_caches: bool) -> Any:
    if not isinstance(prompt, SegmentedPrompt):
        return prompt
    segments = prompt.to_json()
    if only_caches and "document" in segments[-1]:
        # A prompt cannot end in a document; one text token lets it be cached all the same.
        segments.append({"text": "\n"})
    return segments
