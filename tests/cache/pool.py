"""A cache over real pools on the CPU, and the accounts that must balance at every moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, EvictResult
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixCache, TreeNode

from sglang_lazy.cache.prefix_cache import LazyPrefixCache

SINK = 0
SEED = 7


def init_params(num_slots: int, num_rows: int = 8, row_length: int = 256) -> CacheInitParams:
    """Pools without KV: slots are numbers 1 to ``num_slots``."""
    return CacheInitParams(
        disable=False,
        req_to_token_pool=ReqToTokenPool(num_rows, row_length, "cpu", False),
        token_to_kv_pool_allocator=TokenToKVPoolAllocator(
            num_slots, torch.float32, "cpu", None, need_sort=False
        ),
        page_size=1,
    )


class OrderedCache(LazyPrefixCache):
    """Checks that each eviction takes the leaf that its policy ranks lowest, as SGLang does."""

    _evicts = False

    def evict(self, params: EvictParams) -> EvictResult:
        self._evicts = True
        result = super().evict(params)
        self._evicts = False
        return result

    def _delete_leaf(self, node: TreeNode) -> None:
        if self._evicts:
            rank = self.eviction_strategy.get_priority
            assert rank(node) == min(map(rank, self.evictable_leaves)), "not the lowest leaf"
        super()._delete_leaf(node)


def make_cache(
    num_slots: int, num_rows: int = 8, row_length: int = 256, policy: str = "lru"
) -> LazyPrefixCache:
    params = replace(init_params(num_slots, num_rows, row_length), eviction_policy=policy)
    # Attention soon costs as much as the rest, so that depth decides, too.
    return OrderedCache(params, sink_token_id=SINK, hash_seed=SEED, break_even_keys=8)


def tree_nodes(cache: RadixCache) -> Iterator[TreeNode]:
    """All nodes but the root."""
    stack = list(cache.root_node.children.values())
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())


def tree_slots(cache: RadixCache) -> list[int]:
    return [slot for node in tree_nodes(cache) for slot in node.value.tolist()]


def locked_slots(cache: RadixCache) -> set[int]:
    return {s for node in tree_nodes(cache) if node.lock_ref for s in node.value.tolist()}


def check_accounts(cache: RadixCache, own_slots: Iterable[int] = ()) -> None:
    """Every slot has one owner, and the sizes that SGLang reads say so.

    Args:
        cache: the cache, with its allocator.
        own_slots: slots that belong to running requests.
    """
    allocator = cache.token_to_kv_pool_allocator
    free = torch.cat((allocator.free_pages, allocator.release_pages)).tolist()
    own = list(own_slots)
    owned = sorted([*free, *tree_slots(cache), *own])
    assert owned == list(range(1, allocator.size + 1)), "a slot is lost, or has two owners"

    nodes = list(tree_nodes(cache))
    assert all(len(node.key) == len(node.value) > 0 for node in nodes)
    protected = sum(len(node.key) for node in nodes if node.lock_ref > 0)
    evictable = sum(len(node.key) for node in nodes if node.lock_ref == 0)
    assert (cache.protected_size(), cache.evictable_size()) == (protected, evictable)
    sizes = allocator.available_size(), cache.evictable_size(), cache.protected_size(), len(own)
    assert sum(sizes) == allocator.size
    assert all(node.parent.lock_ref >= node.lock_ref for node in nodes if node.parent.parent)
    leaves = {node for node in nodes if not node.children and node.lock_ref == 0}
    assert cache.evictable_leaves == leaves, "what eviction may take is not what is unlocked"
