"""Requests that would never fit are refused before they block the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.patches.registry import around


@around("sglang.srt.managers.scheduler.Scheduler._add_request_to_queue")
def add_request_to_queue(
    original: Callable[..., Any], self: Any, req: Any, *args: Any, **kwargs: Any
) -> Any:
    cache = self.tree_cache
    if isinstance(cache, LazyPrefixCache) and (reason := cache.reason_to_refuse(req)):
        req.set_finish_with_abort(reason)
    return original(self, req, *args, **kwargs)
