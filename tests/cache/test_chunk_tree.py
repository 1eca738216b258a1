"""The chunk tree against a dictionary from paths to slots, under any sequence of calls."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.radix_cache import TreeNode

from sglang_lazy.cache.chunk_tree import ChunkTree, SegmentHit
from sglang_lazy.cache.context import ContextTable
from sglang_lazy.cache.evictable_tree import NodeBundle
from sglang_lazy.cache.prompt import SegmentKey

from .pool import SEED, check_accounts, init_params, locked_slots

Path = tuple[Hashable, tuple[int, ...]]

NUM_SLOTS = 40


def text_contexts() -> list[Hashable]:
    """Two contexts that hold the same tokens, cut into other segments."""
    table = ContextTable(SEED)
    one = (table.intern(array("q", [1, 2]), True),)
    two = (table.intern(array("q", [1]), True), table.intern(array("q", [2]), True))
    return [table.context(None, "none", 0, segments) for segments in (one, two)]


NAMESPACES: list[Hashable] = [None, "a", ("extra_key", "a"), *text_contexts()]
namespaces = st.sampled_from(NAMESPACES)
prefixes = st.sampled_from([(), (0,), (1, 2)])
token_lists = st.lists(st.integers(0, 2), min_size=1, max_size=7).map(tuple)


def tree_owners(tree: ChunkTree) -> dict[Path, int]:
    """All paths in the tree and the slot of each one's last token."""
    owners: dict[Path, int] = {}
    stack: list[tuple[TreeNode, tuple[int, ...]]] = [
        (child, ()) for child in tree.root_node.children.values()
    ]
    while stack:
        node, path = stack.pop()
        for token, slot in zip(node.key.token_ids, node.value.tolist(), strict=True):
            path = (*path, token)
            owners[node.key.extra_key, path] = slot
        stack += [(child, path) for child in node.children.values()]
    return owners


class Lock(NamedTuple):
    """A held lock: the bundle, and the paths it must protect."""

    bundle: NodeBundle
    paths: tuple[Path, ...]


class ChunkTreeMachine(RuleBasedStateMachine):
    """``owner`` maps each path (namespace, tokens from the root) to the slot of its last token."""

    @initialize()
    def start(self) -> None:
        self.tree = ChunkTree(init_params(NUM_SLOTS))
        self.allocator = self.tree.token_to_kv_pool_allocator
        self.owner: dict[Path, int] = {}
        self.locks: list[Lock] = []

    @rule(namespace=namespaces, prefix=prefixes, tokens=token_lists)
    def match(self, namespace: Hashable, prefix: tuple, tokens: tuple) -> None:
        hit = self.tree.match_segment(SegmentKey(namespace, array("q", prefix)), array("q", tokens))
        assert hit.slots.tolist() == self.expected(namespace, prefix, tokens)
        assert (hit.node is None) == (len(hit.slots) == 0)

    @rule(namespace=namespaces, prefix=prefixes, tokens=token_lists, reuse=st.booleans())
    def store(self, namespace: Hashable, prefix: tuple, tokens: tuple, reuse: bool) -> None:
        """As a request does; with ``reuse`` False, as one whose documents hit only later."""
        prefix_hit = self.stored_prefix(namespace, prefix)
        if prefix_hit is None:
            return
        lock = self.lock([prefix_hit], [(namespace, prefix)])
        self.store_behind(namespace, prefix, prefix_hit.slots, tokens, reuse)
        self.unlock(lock)

    def store_behind(
        self, namespace: Hashable, prefix: tuple, prefix_slots: torch.Tensor, tokens: tuple,
        reuse: bool,
    ) -> None:  # fmt: skip
        key = SegmentKey(namespace, array("q", prefix))
        hit = self.tree.match_segment(key, array("q", tokens))
        reused = hit.slots if reuse else hit.slots[:0]
        hit_path = (namespace, (*prefix, *tokens[: len(hit.slots)]))
        lock = self.lock([hit] if reuse else [], [hit_path] if len(reused) else [])
        own = self.allocate(len(tokens) - len(reused))
        if own is not None:
            known = self.expected(namespace, prefix, tokens)
            slots = torch.cat((reused, own))
            stored = self.tree.store_segment(key, array("q", tokens), prefix_slots, slots)
            for i, slot in enumerate(slots.tolist()):
                self.owner.setdefault((namespace, (*prefix, *tokens[: i + 1])), slot)
            assert stored.num_known == len(known)
            assert stored.slots.tolist() == self.expected(namespace, prefix, tokens)
            self.allocator.free(slots[len(reused) : stored.num_known])
        self.unlock(lock)

    @rule(segments=st.lists(st.tuples(namespaces, prefixes, token_lists), min_size=1, max_size=3))
    def lock_matched(self, segments: list[tuple]) -> None:
        hits, paths = [], []
        for namespace, prefix, tokens in segments:
            key = SegmentKey(namespace, array("q", prefix))
            hits.append(self.tree.match_segment(key, array("q", tokens)))
            if length := len(hits[-1].slots):
                paths.append((namespace, (*prefix, *tokens[:length])))
        self.lock(hits, paths)

    @precondition(lambda self: self.locks)
    @rule(index=st.integers(0, 99))
    def unlock_one(self, index: int) -> None:
        self.unlock(self.locks[index % len(self.locks)])

    @rule(num_tokens=st.integers(1, NUM_SLOTS))
    def evict(self, num_tokens: int) -> None:
        evictable = self.tree.evictable_size()
        result = self.tree.evict(EvictParams(num_tokens=num_tokens))
        assert self.forget_evicted() == result.num_tokens_evicted
        assert result.num_tokens_evicted >= min(num_tokens, evictable)

    @rule(tokens=token_lists, is_locked=st.booleans())
    def hold(self, tokens: tuple, is_locked: bool) -> None:
        """Slots of one's own, found by nobody."""
        slots = self.tree.allocate(len(tokens), NodeBundle(()))
        self.forget_evicted()
        if slots is None:
            assert self.allocator.available_size() + self.tree.evictable_size() < len(tokens)
            return
        node = self.tree.hold_private(array("q", tokens), slots)
        namespace = node.key.extra_key
        for i, slot in enumerate(slots.tolist()):
            self.owner[namespace, tokens[: i + 1]] = slot
        if is_locked:
            self.lock([SegmentHit([slots], len(tokens), node)], [(namespace, tokens)])

    @rule()
    def drop(self) -> None:
        """Those that are not locked go; the others stay."""
        self.tree.drop_unlocked()
        locked = {namespace for lock in self.locks for namespace, _ in lock.paths}
        for namespace, path in list(self.owner):
            if namespace not in (*NAMESPACES, *locked):
                del self.owner[namespace, path]

    @precondition(lambda self: self.tree._private)
    @rule(index=st.integers(0, 99))
    def release(self, index: int) -> None:
        """The slots of an unlocked private node get another owner: here, the allocator."""
        unlocked = [node for node in self.tree.evictable_leaves if node in self.tree._private]
        if unlocked:
            node = sorted(unlocked, key=lambda n: n.id)[index % len(unlocked)]
            self.tree.release_private(node)
            self.allocator.free(node.value)
            for i in range(len(node.key)):
                del self.owner[node.key.extra_key, tuple(node.key.token_ids[: i + 1])]

    @rule(num_tokens=st.integers(1, NUM_SLOTS), index=st.integers(0, 99))
    def allocate_beside(self, num_tokens: int, index: int) -> None:
        """Nothing of a bundle is evicted, and nothing at all where there is too little."""
        nodes = sorted(self.tree.evictable_leaves, key=lambda n: n.id)
        keep = NodeBundle(nodes[index % len(nodes) :][:1] if nodes else [])
        kept = [slot for node in keep.nodes for slot in node.value.tolist()]
        before = len(self.owner)
        slots = self.tree.allocate(num_tokens, keep)
        evicted = self.forget_evicted()
        assert set(kept) <= set(self.owner.values())
        assert before - len(self.owner) == evicted
        if slots is None:
            assert evicted == 0
        else:
            self.allocator.free(slots)

    @rule()
    def reset(self) -> None:
        self.tree.reset()
        self.allocator.clear()
        self.owner.clear()
        self.locks.clear()

    @invariant()
    def accounts_balance(self) -> None:
        check_accounts(self.tree)
        assert tree_owners(self.tree) == self.owner

    @invariant()
    def exactly_the_locked_paths_are_protected(self) -> None:
        paths = {(ns, path[:i]) for lock in self.locks for ns, path in lock.paths
                 for i in range(1, len(path) + 1)}  # fmt: skip
        assert locked_slots(self.tree) == {self.owner[path] for path in paths}

    def expected(self, namespace: Hashable, prefix: tuple, tokens: tuple) -> list[int]:
        """Slots of the longest head of ``tokens`` that the model holds."""
        slots: list[int] = []
        for i in range(1, len(tokens) + 1):
            slot = self.owner.get((namespace, (*prefix, *tokens[:i])))
            if slot is None:
                break
            slots.append(slot)
        return slots

    def stored_prefix(self, namespace: Hashable, prefix: tuple) -> SegmentHit | None:
        """The prefix in the tree, stored first where it is missing; None in a full pool."""
        no_prefix = SegmentKey(namespace, array("q"))
        if self.tree.match_segment(no_prefix, array("q", prefix)).slots.tolist() != [
            self.owner.get((namespace, prefix[: i + 1])) for i in range(len(prefix))
        ]:
            self.store_behind(namespace, (), torch.empty(0, dtype=torch.int64), prefix, True)
        hit = self.tree.match_segment(no_prefix, array("q", prefix))
        return hit if len(hit.slots) == len(prefix) else None

    def allocate(self, count: int) -> torch.Tensor | None:
        missing = count - self.allocator.available_size()
        if missing > 0:
            self.tree.evict(EvictParams(num_tokens=missing))
            self.forget_evicted()
        return self.allocator.alloc(count)

    def lock(self, hits: Sequence[SegmentHit], paths: Sequence[Path]) -> Lock:
        lock = Lock(NodeBundle([hit.node for hit in hits]), tuple(paths))
        before = self.tree.evictable_size()
        delta = self.tree.inc_lock_ref(lock.bundle).delta
        assert self.tree.evictable_size() == before + delta
        self.locks.append(lock)
        return lock

    def unlock(self, lock: Lock) -> None:
        before = self.tree.evictable_size()
        delta = self.tree.dec_lock_ref(lock.bundle).delta
        assert self.tree.evictable_size() == before + delta
        self.locks.remove(lock)

    def forget_evicted(self) -> int:
        """Drop from the model what has left the tree; locked paths must have stayed."""
        left = tree_owners(self.tree)
        gone = {path for path, slot in self.owner.items() if left.get(path) != slot}
        for path in gone:
            del self.owner[path]
        for namespace, path in self.owner:
            assert len(path) == 1 or (namespace, path[:-1]) in self.owner, "head evicted first"
        return len(gone)


TestChunkTree = ChunkTreeMachine.TestCase
TestChunkTree.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
