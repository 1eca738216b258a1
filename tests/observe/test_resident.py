"""The books on resident documents against a model of paths, under any sequence of calls."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from hashlib import sha256

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sglang.srt.mem_cache.base_prefix_cache import EvictParams

from sglang_lazy.cache.chunk_tree import ChunkTree
from sglang_lazy.cache.prompt import SegmentKey
from sglang_lazy.observe.resident import ResidentDocuments, document_digest

from ..cache.pool import init_params, tree_nodes
from ..cache.test_chunk_tree import Path, tree_owners

NUM_SLOTS = 30
namespaces = st.sampled_from([None, "a"])
contexts = st.sampled_from([0, 1, 2])
# A context, then a document; two letters only, so that paths overlap in every way.
paths = st.lists(st.integers(0, 1), min_size=3, max_size=7).map(tuple)


def store(tree: ChunkTree, namespace: Hashable, path: tuple[int, ...]) -> object:
    """The node in which the path ends, stored as far as it was missing."""
    key = SegmentKey(namespace, array("q"))
    hit = tree.match_segment(key, array("q", path))
    if hit.node is not None:
        tree.inc_lock_ref(hit.node)
    allocator, missing = tree.token_to_kv_pool_allocator, len(path) - hit.length
    if missing > allocator.available_size():
        tree.evict(EvictParams(num_tokens=missing - allocator.available_size()))
    own = allocator.alloc(missing)
    assert own is not None
    slots = torch.cat((hit.slots, own))
    stored = tree.store_segment(key, array("q", path), slots[:0], slots)
    if hit.node is not None:
        tree.dec_lock_ref(hit.node)
    return stored.node


class ResidentMachine(RuleBasedStateMachine):
    """``covered``: paths whose last token is a document's; ``ends``: paths that are documents."""

    @initialize()
    def start(self) -> None:
        self.resident = ResidentDocuments()
        self.tree = ChunkTree(init_params(NUM_SLOTS), self.resident)
        self.covered: set[Path] = set()
        self.ends: dict[Path, int] = {}
        self.evicted = [0, 0]

    @rule(namespace=namespaces, path=paths)
    def store_text(self, namespace: Hashable, path: tuple[int, ...]) -> None:
        store(self.tree, namespace, path)
        self.forget()

    @rule(namespace=namespaces, path=paths, context=contexts, whole=st.booleans())
    def store_document(
        self, namespace: Hashable, path: tuple[int, ...], context: int, whole: bool
    ) -> None:
        """Whole, or the head that one pass of several has computed."""
        node = store(self.tree, namespace, path)
        self.forget()
        self.covered |= {(namespace, path[: i + 1]) for i in range(context, len(path))}
        if whole:
            length = len(path) - context
            document = self.resident.add(node, length, context, namespace, "none")
            # The same tokens may be cut into context and document in several ways.
            longest = max(length, self.ends.get((namespace, path), 0))
            self.ends[namespace, path] = longest
            assert document.num_tokens == longest
        else:
            self.resident.cover(node, context)

    @rule(namespace=namespaces, path=paths)
    def match(self, namespace: Hashable, path: tuple[int, ...]) -> None:
        self.tree.match_segment(SegmentKey(namespace, array("q")), array("q", path))

    @rule(num_tokens=st.integers(1, NUM_SLOTS))
    def evict(self, num_tokens: int) -> None:
        self.tree.evict(EvictParams(num_tokens=num_tokens))
        self.forget()

    @rule()
    def reset(self) -> None:
        self.tree.reset()
        self.tree.token_to_kv_pool_allocator.clear()
        self.covered.clear()
        self.ends.clear()

    def forget(self) -> None:
        left = tree_owners(self.tree).keys()
        self.evicted[0] += len(self.ends.keys() - left)
        self.evicted[1] += len(self.covered - left)
        self.covered &= left
        self.ends = {path: length for path, length in self.ends.items() if path in left}

    @invariant()
    def totals_are_right(self) -> None:
        assert self.resident.num_tokens == len(self.covered)
        assert len(self.resident) == len(self.ends)
        evicted = self.resident.evicted_documents, self.resident.evicted_tokens
        assert list(evicted) == self.evicted
        on_nodes = sum(getattr(node, "document_tokens", 0) for node in tree_nodes(self.tree))
        assert on_nodes == self.resident.num_tokens

    @invariant()
    def documents_are_named_by_their_tokens(self) -> None:
        listed = self.resident.hottest(NUM_SLOTS * 2)
        expected = [
            (namespace, document_digest(array("q", path[-length:])))
            for (namespace, path), length in self.ends.items()
        ]
        named = [(document.namespace, document.digest) for document in listed]
        assert sorted(named, key=repr) == sorted(expected, key=repr)


TestResidentDocuments = ResidentMachine.TestCase
TestResidentDocuments.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_digest_is_what_the_manual_says() -> None:
    data = b"".join(token.to_bytes(8, "little") for token in (5, 70000))
    assert document_digest(array("q", [5, 70000])) == sha256(data).hexdigest()[:32]


def test_hottest_first() -> None:
    resident = ResidentDocuments()
    tree = ChunkTree(init_params(NUM_SLOTS), resident)
    documents = [resident.add(store(tree, None, (i, i, i)), 3, 0, None, "none") for i in range(3)]
    for document, hits in zip(documents, (1, 3, 2), strict=True):
        document.hits = hits
    assert resident.hottest(2) == [documents[1], documents[2]]
