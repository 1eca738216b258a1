"""New weights: KV of the old ones is not served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.patches.registry import around


@around(
    "sglang.srt.managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager"
    ".flush_cache_after_weight_update"
)
def flush_cache_after_weight_update(original: Callable[..., Any], self: Any, recv_req: Any) -> Any:
    """Every kind of update comes by here. Where the client wants the cache kept, plain prompts
    go on with it, as on stock SGLang; documents are encoded anew."""
    cache = self.scheduler.tree_cache
    if not isinstance(cache, LazyPrefixCache):
        return original(self, recv_req)
    cache.expire_documents()
    result = original(self, recv_req)
    cache.evict_documents()  # after a flush there is nothing left, and nothing was evicted
    return result
