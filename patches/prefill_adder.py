"""Admission: a request waits for room, and for documents that another one is computing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.patches.registry import around

_TARGET = "sglang.srt.managers.schedule_policy.PrefillAdder"

_HAS_WAITER = "sglang_lazy_has_waiter"
"""Attribute of an adder, which lives for one round of admission."""


@around(f"{_TARGET}.add_one_req")
def add_one_req(
    original: Callable[..., Any], self: Any, req: Any, *args: Any, **kwargs: Any
) -> Any:
    cache = self.tree_cache
    if not isinstance(cache, LazyPrefixCache):
        return original(self, req, *args, **kwargs)
    if cache.should_wait(req):
        setattr(self, _HAS_WAITER, True)
        return compat.skip_request()  # stays in the queue; those behind it go on
    if getattr(self, _HAS_WAITER, False) and compat.would_be_chunked(self, req):
        # All of its chunks would run before the request that waits for one pass only.
        return compat.skip_request()
    if cache.lacks_room(req):
        return compat.no_room()
    result = original(self, req, *args, **kwargs)
    if self.can_run_list and self.can_run_list[-1] is req:
        cache.note_admission(req)
    return result


@around(f"{_TARGET}.preempt_to_schedule")
def preempt_to_schedule(
    original: Callable[..., Any], self: Any, req: Any, *args: Any, **kwargs: Any
) -> Any:
    cache = self.tree_cache
    if not isinstance(cache, LazyPrefixCache):
        return original(self, req, *args, **kwargs)
    if cache.has_documents(req) and not req.full_untruncated_fill_ids:
        # SGLang looks at how much must be computed, and matches a new request only afterwards.
        req.init_next_round_input(cache)
    if cache.should_wait(req):
        return False  # nobody is put back for a request that will not run
    order = {running: i for i, running in enumerate(self.running_batch.reqs)}
    num_before = len(self.preempt_list)
    preempted = original(self, req, *args, **kwargs)
    if preempted:
        # SGLang goes through a set. Ranks of tensor parallelism must queue them alike.
        latest = self.preempt_list[num_before:]
        self.preempt_list[num_before:] = sorted(latest, key=order.__getitem__)
        cache.preempted = self.preempt_list
    return preempted
