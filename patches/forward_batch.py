"""Positions and key spans of a pass, made where SGLang makes its ``ForwardBatch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.attention.batch import plan_batch
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.cache.request_state import admitted_state
from sglang_lazy.patches.registry import around


@around("sglang.srt.model_executor.forward_batch_info.ForwardBatch.init_new")
def init_new(
    original: Callable[..., Any], cls: type, batch: Any, model_runner: Any, **kwargs: Any
) -> Any:
    forward_batch = original(cls, batch, model_runner, **kwargs)
    if isinstance(batch.tree_cache, LazyPrefixCache) and any(map(admitted_state, batch.reqs)):
        appended = plan_batch(forward_batch, batch, batch.tree_cache)
        compat.assign_adapters(model_runner, forward_batch, appended)
    return forward_batch
