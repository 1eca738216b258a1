"""``sglang.Engine``: the ``chunk_*`` settings, and structured prompts in ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.entrypoints.engine import Engine

from sglang_lazy.patches.registry import around
from sglang_lazy.patches.server_args import engine_server_args
from sglang_lazy.request.batch import structured_inputs

# Engine reads this after it has loaded the plugins. A hook on ServerArgs.__init__
# would be dead from 0.5.20 on, where ServerArgs is a msgspec struct.
Engine.server_args_class = staticmethod(engine_server_args)


def _generate(
    original: Callable[..., Any],
    self: Engine,
    prompt: Any = None,
    sampling_params: Any = None,
    input_ids: Any = None,
    *args: Any,
    segments: Any = None,
    document_spans: Any = None,
    chunk_context: Any = None,
    chunk_link_tokens: Any = None,
    **kwargs: Any,
) -> Any:
    """Accept ``segments``, ``document_spans`` and the ``chunk_*`` overrides beside SGLang's own."""
    prompt, input_ids = structured_inputs(
        prompt, input_ids, segments, document_spans, chunk_context, chunk_link_tokens
    )
    return original(self, prompt, sampling_params, input_ids, *args, **kwargs)


around("sglang.srt.entrypoints.engine.Engine.generate")(_generate)
around("sglang.srt.entrypoints.engine.Engine.async_generate")(_generate)
