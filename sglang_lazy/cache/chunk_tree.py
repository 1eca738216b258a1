"""The chunk tree: SGLang's radix tree, entered once per segment of a prompt.

A radix tree's path determines KV: tokens below a path were computed at the
positions, and in sight of the tokens, that the path spells. Everything a chunk
cache needs is a choice of path (:class:`~sglang_lazy.cache.prompt.SegmentKey`),
so storage, eviction, locks and their accounts stay SGLang's own, and a prompt
without documents takes exactly its code.

Matching a segment costs its own length, whatever else is cached.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from sglang.srt.mem_cache.base_prefix_cache import (
    EvictParams,
    InsertParams,
    MatchPrefixParams,
)
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey, TreeNode

from sglang_lazy.cache.context import Tokens
from sglang_lazy.cache.prompt import SegmentKey
from sglang_lazy.compat import lock_result, unlock_result
from sglang_lazy.observe.resident import ResidentDocuments

if TYPE_CHECKING:
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams


class SegmentHit(NamedTuple):
    """Cached head of a segment.

    Attributes:
        runs: int64 on the cache's device, KV slots of its first tokens, run by run.
            Left apart, since joining them costs a kernel launch for each segment.
        length: their number.
        node: tree node to lock, or None where nothing was found.
    """

    runs: list[torch.Tensor]
    length: int
    node: TreeNode | None

    @property
    def slots(self) -> torch.Tensor:
        """The runs, joined."""
        return torch.cat(self.runs) if self.runs else torch.empty(0, dtype=torch.int64)


def cut_runs(runs: Sequence[torch.Tensor], start: int, stop: int) -> list[torch.Tensor]:
    """The elements ``[start, stop)`` of runs laid end to end, as runs."""
    kept, offset = [], 0
    for run in runs:
        length = run.shape[0]
        low, high = max(start - offset, 0), min(stop - offset, length)
        if low < high:
            kept.append(run if high - low == length else run[low:high])
        offset += length
    return kept


class StoredSegment(NamedTuple):
    """Result of :meth:`ChunkTree.store_segment`.

    Attributes:
        num_known: head tokens that the tree held already, in its own slots.
        slots: int64 ``[n]``, the tree's slots of all n tokens given.
        node: tree node to lock.
    """

    num_known: int
    slots: torch.Tensor
    node: TreeNode


class NodeBundle:
    """The tree nodes that one request uses; SGLang passes it around as its ``last_node``."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Sequence[TreeNode | None]) -> None:
        self.nodes = tuple(nodes)


class ChunkTree(RadixCache):
    """A radix tree that can be matched, extended and locked by segment.

    Args:
        params: SGLang's own.
        resident: kept up to date with what leaves the tree; who stores documents adds them.
    """

    def __init__(self, params: CacheInitParams, resident: ResidentDocuments | None = None) -> None:
        self._resident = ResidentDocuments() if resident is None else resident
        super().__init__(params)

    def reset(self) -> None:
        super().reset()
        self._resident.clear()
        # Sink tokens that a pass still has to write, by slot.
        self._unwritten_sinks: dict[int, TreeNode] = {}

    def match_segment(self, key: SegmentKey, tokens: Tokens) -> SegmentHit:
        """Find the longest cached head of a segment. May split a tree node."""
        path = key.prefix + tokens if key.prefix else tokens
        if not path:
            return SegmentHit([], 0, None)
        runs, node = self._match_prefix_helper(self.root_node, RadixKey(path, key.namespace))
        length = sum(run.shape[0] for run in runs) - len(key.prefix)
        if length <= 0:
            return SegmentHit([], 0, None)
        if key.prefix:
            runs = cut_runs(runs, len(key.prefix), len(path))
        return SegmentHit(runs, length, node)

    def store_segment(
        self,
        key: SegmentKey,
        tokens: Tokens,
        prefix_slots: torch.Tensor,
        slots: torch.Tensor,
        *,
        chunked: bool = False,
        priority: int = 0,
    ) -> StoredSegment:
        """Give a segment's head to the tree.

        The tree takes over the slots of tokens it did not know, and keeps its own
        for those it knew: the caller frees its duplicates, ``slots[:num_known]``
        less what came from the tree.

        Args:
            key: where to file the segment.
            tokens: its first n tokens.
            prefix_slots: int64, slots of ``key.prefix``, which the tree holds and the
                caller has locked, or has just stored.
            slots: int64 ``[n]``, slots of ``tokens``.
            chunked: SGLang's flag for a prompt that is prefilled in several passes.
            priority: the request's priority, for priority-aware eviction.
        """
        radix_key = RadixKey(key.prefix + tokens, key.namespace)
        result = self.insert(
            InsertParams(
                key=radix_key,
                value=torch.cat((prefix_slots, slots)),
                chunked=chunked,
                priority=priority,
            )
        )
        match = super().match_prefix(MatchPrefixParams(key=radix_key))
        return StoredSegment(
            num_known=max(result.prefix_len - len(key.prefix), 0),
            slots=match.device_indices[len(key.prefix) :],
            node=match.last_device_node,
        )

    def find_or_create_sink(self, namespace: Hashable, token_id: int) -> SegmentHit:
        """The slot of a sink token, stored like a prompt's first token.

        A new one is unwritten: the first pass that uses it must compute it
        (:meth:`take_unwritten_sink`), and if the caller does not lock it, it goes
        (:meth:`drop_unwritten_sinks`). Where no slot can be had, ``node`` is None.
        """
        key, tokens = SegmentKey(namespace, array("q")), array("q", [token_id])
        hit = self.match_segment(key, tokens)
        if hit.length:
            return hit
        slot = self.token_to_kv_pool_allocator.alloc(1)
        if slot is None:
            self.evict(EvictParams(num_tokens=1))
            slot = self.token_to_kv_pool_allocator.alloc(1)
        if slot is None:
            return hit
        slot = slot.to(torch.int64)
        stored = self.store_segment(key, tokens, slot[:0], slot)
        self._unwritten_sinks[int(slot)] = stored.node
        return SegmentHit([stored.slots], 1, stored.node)

    def drop_unwritten_sinks(self) -> None:
        """Take back the sinks of requests that were not admitted.

        To be called before the tree is read: a sink is visible only while a request
        that has it locked is about to write it.
        """
        if not self._unwritten_sinks:
            return
        for slot, node in list(self._unwritten_sinks.items()):
            if node.lock_ref > 0:
                continue
            del self._unwritten_sinks[slot]
            if node in self.evictable_leaves:  # else it was evicted meanwhile
                self.token_to_kv_pool_allocator.free(node.value)
                self._delete_leaf(node)

    def take_unwritten_sink(self, slot: torch.Tensor) -> bool:
        """Whether the caller's pass must write this sink, int64 ``[1]``; true once per sink.

        Passes run in the order in which they are planned, so a later pass may
        rely on it without waiting.
        """
        # Reading the slot waits for the device, so only where there is something to find.
        if not self._unwritten_sinks or int(slot) not in self._unwritten_sinks:
            return False
        del self._unwritten_sinks[int(slot)]
        return True

    def _split_node(self, key: RadixKey, child: TreeNode, split_len: int) -> TreeNode:
        head = super()._split_node(key, child, split_len)
        self._resident.split(head, child)
        return head

    def _delete_leaf(self, node: TreeNode) -> None:
        super()._delete_leaf(node)
        self._resident.evict(node)

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
