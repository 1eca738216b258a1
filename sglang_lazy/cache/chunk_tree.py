"""The chunk tree: SGLang's radix tree, entered once per segment of a prompt.

A radix tree's path determines KV: tokens below a path were computed at the
positions, and in sight of the tokens, that the path spells. Everything a chunk
cache needs is a choice of path (:class:`~sglang_lazy.cache.prompt.SegmentKey`),
so storage, locks and their accounts stay SGLang's own, and a prompt without
documents takes exactly its code, but for the heap that eviction keeps
(:class:`~sglang_lazy.cache.evictable_tree.EvictableTree`).

Matching a segment costs its own length, whatever else is cached.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from sglang.srt.mem_cache.base_prefix_cache import (
    EvictParams,
    InsertParams,
    MatchPrefixParams,
)
from sglang.srt.mem_cache.radix_cache import RadixKey, TreeNode

from sglang_lazy.cache.context import Tokens
from sglang_lazy.cache.evictable_tree import EvictableTree, NodeBundle
from sglang_lazy.cache.eviction import BREAK_EVEN_KEYS
from sglang_lazy.cache.prompt import SegmentKey
from sglang_lazy.observe.resident import ResidentDocuments, is_document_part

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


class ChunkTree(EvictableTree):
    """A radix tree that can be matched, extended and locked by segment.

    Args:
        params: SGLang's own.
        resident: kept up to date with what leaves the tree; who stores documents adds them.
        break_even_keys: see :class:`~sglang_lazy.cache.eviction.GreedyDual`.
    """

    def __init__(
        self,
        params: CacheInitParams,
        resident: ResidentDocuments | None = None,
        break_even_keys: float = BREAK_EVEN_KEYS,
    ) -> None:
        self._resident = ResidentDocuments() if resident is None else resident
        super().__init__(params, break_even_keys)

    def reset(self) -> None:
        super().reset()
        self._resident.clear()
        self._private: set[TreeNode] = set()

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
            priority: the request's priority, for priority-aware eviction.
        """
        radix_key = RadixKey(key.prefix + tokens, key.namespace)
        result = self.insert(
            InsertParams(
                key=radix_key,
                value=torch.cat((prefix_slots, slots)),
                chunked=True,  # do not count a hit: touch() counts those of a whole prompt
                priority=priority,
            )
        )
        match = super().match_prefix(MatchPrefixParams(key=radix_key))
        return StoredSegment(
            num_known=max(result.prefix_len - len(key.prefix), 0),
            slots=match.device_indices[len(key.prefix) :],
            node=match.last_device_node,
        )

    def allocate(self, num_tokens: int, keep: NodeBundle) -> torch.Tensor | None:
        """int64 slots, for which others than those of ``keep`` may be evicted.

        None where there are not enough; then nothing was evicted either.
        """
        missing = num_tokens - self.token_to_kv_pool_allocator.available_size()
        if missing > 0:
            self.inc_lock_ref(keep)
            if missing <= self.evictable_size():
                self.evict(EvictParams(num_tokens=missing))
            self.dec_lock_ref(keep)
        slots: torch.Tensor | None = self.token_to_kv_pool_allocator.alloc(num_tokens)
        return None if slots is None else slots.to(torch.int64)

    def hold_private(self, tokens: Tokens, slots: torch.Tensor) -> TreeNode:
        """File slots that nobody may find yet, since they are still to be written.

        The node is the caller's: to be locked, or else it goes (:meth:`drop_unlocked`).
        """
        # A namespace that equals no other.
        key = SegmentKey(object(), array("q"))
        node = self.store_segment(key, tokens, slots[:0], slots).node
        self._private.add(node)
        return node

    def release_private(self, node: TreeNode) -> None:
        """Remove a private node whose slots have another owner now."""
        self._private.remove(node)
        self._delete_leaf(node)

    def drop_unlocked(self) -> None:
        """Take back what requests hold in private that were not admitted, or have ended."""
        if not self._private:
            return
        for node in [n for n in self._private if n.lock_ref == 0]:
            self._private.remove(node)
            if node in self.evictable_leaves:  # else it was evicted meanwhile
                self._evict_leaf(node)

    def evict_documents(self) -> None:
        """Evict what is there for prompts with documents alone, and not locked."""
        self.drop_unlocked()
        leaves = [node for node in self.evictable_leaves if _is_of_documents(node)]
        while leaves:
            node = leaves.pop()
            parent = node.parent
            self._evict_leaf(node)
            if parent in self.evictable_leaves and _is_of_documents(parent):
                leaves.append(parent)

    def _split_node(self, key: RadixKey, child: TreeNode, split_len: int) -> TreeNode:
        head = super()._split_node(key, child, split_len)
        self._resident.split(head, child)
        return head

    def _delete_leaf(self, node: TreeNode) -> None:
        super()._delete_leaf(node)
        self._resident.evict(node)


def _is_of_documents(node: TreeNode) -> bool:
    """Whether a node is part of a document, or lies where prompts without any never look."""
    namespace = node.key.extra_key
    if namespace is not None and not isinstance(namespace, str):
        return True
    return is_document_part(node)
