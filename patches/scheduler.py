"""The scheduler refuses what would never fit, loses nobody, and answers ``GET /chunk_cache``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.observe.summary import summarize
from sglang_lazy.patches.registry import around

_TARGET = "sglang.srt.managers.scheduler.Scheduler"


@around(f"{_TARGET}._add_request_to_queue")
def add_request_to_queue(
    original: Callable[..., Any], self: Any, req: Any, *args: Any, **kwargs: Any
) -> Any:
    """A request that can never fit is refused before it blocks the queue."""
    cache = self.tree_cache
    if isinstance(cache, LazyPrefixCache) and (reason := cache.reason_to_refuse(req)):
        req.set_finish_with_abort(reason)
    return original(self, req, *args, **kwargs)


@around(f"{_TARGET}.get_new_batch_prefill")
def get_new_batch_prefill(original: Callable[..., Any], self: Any, running_batch: Any) -> Any:
    """Requests that gave way to one of higher priority wait in the queue.

    SGLang forgets them where nobody is admitted after all: its estimate of what must be given
    up knows nothing of detached tokens, nor of prompts that are new. Where somebody is, it has
    put them back, or refused them since the queue is full.
    """
    plan = original(self, running_batch)
    if isinstance(self.tree_cache, LazyPrefixCache):
        put_back, self.tree_cache.preempted = self.tree_cache.preempted, ()
        if plan.batch_to_run is None:
            for req in put_back:
                self._add_request_to_queue(req)
    return plan


@around(f"{_TARGET}.get_internal_state")
def get_internal_state(original: Callable[..., Any], self: Any, recv_req: Any) -> Any:
    limit = compat.summary_limit(recv_req)
    if limit is None or not isinstance(self.tree_cache, LazyPrefixCache):
        return original(self, recv_req)
    return compat.summary_reply(summarize(self.tree_cache, limit, compat.dp_rank(self)))
