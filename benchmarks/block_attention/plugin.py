"""Entry points for SGLang: the baseline's cache, and a token budget that can be changed.

``BENCH_TOKEN_BUDGET`` names a file. At each flush of the cache the pool shrinks, or grows
back, to the number of tokens in it, so that one engine serves several budgets.
``BENCH_BLOCK_ATTENTION=1`` turns the lazy cache into the copying baseline.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def register() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    if "BENCH_TOKEN_BUDGET" in os.environ:
        HookRegistry.register(
            "sglang.srt.managers.scheduler.Scheduler.flush_cache", _flush_cache, HookType.AROUND
        )
    if os.environ.get("BENCH_BLOCK_ATTENTION") == "1":
        HookRegistry.register(
            "sglang.srt.managers.schedule_policy.PrefillAdder.add_one_req",
            _add_one_req,
            HookType.AROUND,
        )
        _use_copies()


def _flush_cache(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    budget = Path(os.environ["BENCH_TOKEN_BUDGET"])
    if budget.exists():
        size = int(budget.read_text())
        self.token_to_kv_pool_allocator.size = size
        for holder in (self, *vars(self).values()):  # the scheduler's parts have copies
            if hasattr(holder, "max_total_num_tokens"):
                object.__setattr__(holder, "max_total_num_tokens", size)  # some are frozen
    return original(self, *args, **kwargs)


def _use_copies() -> None:
    from block_attention import cache
    from sglang_lazy.attention import batch
    from sglang_lazy.cache import factory
    from sglang_lazy.patches import forward_batch

    stock = factory.create_prefix_cache

    def create(ctx: Any) -> Any:
        created = stock(ctx)
        created.cos_sin_cache = ctx.tp_worker.model_runner.attn_backend.rotaries[0].cos_sin_cache
        return created

    factory.create_prefix_cache = create
    factory.LazyPrefixCache = cache.CopyingPrefixCache
    batch.admitted_state = forward_batch.admitted_state = cache.documents_state


def _add_one_req(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    from sglang.srt.managers.schedule_policy import AddReqResult

    from block_attention.cache import CopyingPrefixCache

    if not args:  # sglang-lazy asks whether its own hook is there
        return original(self, **kwargs)
    req, cache = args[0], self.tree_cache
    copies = cache.num_copies(req) if isinstance(cache, CopyingPrefixCache) else 0
    if not copies:
        return original(self, *args, **kwargs)
    cache.inc_lock_ref(req.last_node)
    computed = len(req.full_untruncated_fill_ids) - len(req.prefix_indices)
    fits = copies + computed + req.sampling_params.max_new_tokens < self.rem_total_tokens
    if fits:
        cache.reserve_copies(req)
    cache.dec_lock_ref(req.last_node)
    if not fits:
        return AddReqResult.NO_TOKEN
    result = original(self, *args, **kwargs)
    if not (self.can_run_list and self.can_run_list[-1] is req):
        cache.release_copies(req)
    return result
