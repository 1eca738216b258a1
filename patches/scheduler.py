"""The scheduler refuses what would never fit, and answers ``GET /chunk_cache``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.observe.summary import summarize
from sglang_lazy.patches.registry import around


@around("sglang.srt.managers.scheduler.Scheduler._add_request_to_queue")
def add_request_to_queue(
    original: Callable[..., Any], self: Any, req: Any, *args: Any, **kwargs: Any
) -> Any:
    """A request that can never fit is refused before it blocks the queue."""
    cache = self.tree_cache
    if isinstance(cache, LazyPrefixCache) and (reason := cache.reason_to_refuse(req)):
        req.set_finish_with_abort(reason)
    return original(self, req, *args, **kwargs)


@around("sglang.srt.managers.scheduler.Scheduler.get_internal_state")
def get_internal_state(original: Callable[..., Any], self: Any, recv_req: Any) -> Any:
    limit = compat.summary_limit(recv_req)
    if limit is None or not isinstance(self.tree_cache, LazyPrefixCache):
        return original(self, recv_req)
    return compat.summary_reply(summarize(self.tree_cache, limit, compat.dp_rank(self)))
