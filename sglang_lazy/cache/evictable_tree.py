"""SGLang's radix tree with locks and eviction for requests that use many of its nodes.

Policies, their accounts and the locks are SGLang's. What differs: a request locks a bundle of
nodes, tells the policy of all of them at once, and eviction keeps its heap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sglang.srt.mem_cache.base_prefix_cache import EvictParams, EvictResult
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey, TreeNode

from sglang_lazy.cache.eviction import BREAK_EVEN_KEYS, FALLING, GreedyDual, LeafHeap
from sglang_lazy.compat import lock_result, unlock_result
from sglang_lazy.config import GDSF

if TYPE_CHECKING:
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams


class NodeBundle:
    """The tree nodes that one request uses; SGLang passes it around as its ``last_node``."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Sequence[TreeNode | None]) -> None:
        self.nodes = tuple(nodes)


class EvictableTree(RadixCache):
    """A radix tree that is locked by bundle, with policy ``gdsf`` beside SGLang's.

    Args:
        params: SGLang's own.
        break_even_keys: for policy ``gdsf``; see :class:`~sglang_lazy.cache.eviction.GreedyDual`.
    """

    def __init__(self, params: CacheInitParams, break_even_keys: float = BREAK_EVEN_KEYS) -> None:
        self._greedy_dual: GreedyDual | None = None
        self._last_touch = -math.inf
        policy = params.eviction_policy.lower()
        # SGLang makes its own policies only.
        super().__init__(replace(params, eviction_policy="lru") if policy == GDSF else params)
        if policy == GDSF:
            self.eviction_policy = policy
            self.eviction_strategy = self._greedy_dual = GreedyDual(break_even_keys)
        if policy not in FALLING:
            self.evictable_leaves: set[TreeNode] = LeafHeap(self.eviction_strategy)

    def reset(self) -> None:
        super().reset()
        if self._greedy_dual is not None:
            self._greedy_dual.reset()

    def touch(self, node: TreeNode | NodeBundle, priority: int) -> None:
        """Tell the eviction policy that a request uses a node, or a bundle, and their ancestors.

        SGLang notes a use when it inserts a prompt into its tree: all of it, first when it
        has been prefilled, then with its answer. Of a prompt with documents only what was
        computed is inserted, so this notes the rest, and each node once, however often the
        prompt holds it.

        Args:
            node: what the request locks.
            priority: the request's priority.
        """
        used = list(_with_ancestors(node))
        for each in used:
            # All different, so that no set's order decides which one of a prompt's documents
            # is evicted: ranks of tensor parallelism must agree.
            now = time.monotonic()
            self._last_touch = max(now, math.nextafter(self._last_touch, math.inf))
            each.last_access_time = self._last_touch
            each.hit_count += 1
            each.priority = max(each.priority, priority)
        if self._greedy_dual is not None:
            self._greedy_dual.refresh(used)

    def count_use(self, node: TreeNode | NodeBundle) -> None:
        """For policy ``gdsf``: count a request that found a node, or a bundle, when admitted."""
        if self._greedy_dual is not None:
            self._greedy_dual.count(_with_ancestors(node))

    def refresh(self, node: TreeNode | NodeBundle | None) -> None:
        """For policy ``gdsf``: the request that uses a node, or a bundle, is done with it."""
        if self._greedy_dual is not None:
            self._greedy_dual.refresh(_with_ancestors(node))

    def evict(self, params: EvictParams) -> EvictResult:
        """Evict leaves in the policy's order until ``num_tokens`` are free, or none is left."""
        leaves = self.evictable_leaves
        if not isinstance(leaves, LeafHeap):
            return super().evict(params)
        start = time.perf_counter()
        num_evicted = 0
        while num_evicted < params.num_tokens and (node := leaves.lowest()) is not None:
            if self._greedy_dual is not None:
                self._greedy_dual.advance(node)
            num_evicted += len(node.value)
            self._evict_leaf(node)
        self.update_eviction_metrics(num_evicted, start)
        return EvictResult(num_tokens_evicted=num_evicted)

    def _evict_leaf(self, node: TreeNode) -> None:
        """Free a leaf's slots and take it out of the tree; its parent may become a leaf."""
        if self._greedy_dual is not None:
            self._greedy_dual.remember(node)
        self.token_to_kv_pool_allocator.free(node.value)
        self._delete_leaf(node)
        self._record_remove_event(node)

    def inc_lock_ref(self, node: TreeNode | NodeBundle) -> Any:
        """Protect a node, or every node of a bundle, and their ancestors from eviction."""
        if not isinstance(node, NodeBundle):
            return super().inc_lock_ref(node)
        locked = super().inc_lock_ref
        return lock_result(sum(locked(n).delta for n in node.nodes if n is not None))

    def dec_lock_ref(self, node: TreeNode | NodeBundle, params: Any = None) -> Any:
        """Undo :meth:`inc_lock_ref`."""
        if not isinstance(node, NodeBundle):
            return super().dec_lock_ref(node, params)
        unlocked = super().dec_lock_ref
        deltas = [unlocked(n).delta for n in node.nodes if n is not None]
        return unlock_result(sum(deltas))

    def _split_node(self, key: RadixKey, child: TreeNode, split_len: int) -> TreeNode:
        if self._greedy_dual is None:
            return super()._split_node(key, child, split_len)
        self._greedy_dual.note(child)  # of a node that is new: both parts have its past
        head = super()._split_node(key, child, split_len)
        self._greedy_dual.split(head, child)
        return head


def _with_ancestors(node: TreeNode | NodeBundle | None) -> Iterator[TreeNode]:
    """Every node on the paths to a node, or to those of a bundle, once; the root is not one."""
    seen: set[TreeNode] = set()
    for each in node.nodes if isinstance(node, NodeBundle) else (node,):
        while each is not None and each.parent is not None and each not in seen:
            seen.add(each)
            yield each
            each = each.parent
