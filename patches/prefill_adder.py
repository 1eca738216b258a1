"""Admission: a request waits for room, and for documents that another one is computing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.patches.registry import around


@around("sglang.srt.managers.schedule_policy.PrefillAdder.add_one_req")
def add_one_req(
    original: Callable[..., Any], self: Any, req: Any, *args: Any, **kwargs: Any
) -> Any:
    cache = self.tree_cache
    if not isinstance(cache, LazyPrefixCache):
        return original(self, req, *args, **kwargs)
    if cache.should_wait(req):
        return compat.skip_request()  # stays in the queue; those behind it go on
    if cache.lacks_room(req):
        return compat.no_room()
    result = original(self, req, *args, **kwargs)
    if self.can_run_list and self.can_run_list[-1] is req:
        cache.note_admission(req)
    return result
