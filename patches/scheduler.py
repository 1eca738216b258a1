"""The scheduler's answer to ``GET /chunk_cache``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.observe.summary import summarize
from sglang_lazy.patches.registry import around


@around("sglang.srt.managers.scheduler.Scheduler.get_internal_state")
def get_internal_state(original: Callable[..., Any], self: Any, recv_req: Any) -> Any:
    limit = compat.summary_limit(recv_req)
    if limit is None or not isinstance(self.tree_cache, LazyPrefixCache):
        return original(self, recv_req)
    return compat.summary_reply(summarize(self.tree_cache, limit, compat.dp_rank(self)))
