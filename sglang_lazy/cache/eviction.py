"""What to evict next: the policy GDSF, and a heap of leaves for any policy.

GDSF evicts by popularity and by what it would cost to compute the KV again.
GreedyDual-Size-Frequency (Cherkasova, HP Labs HPL-98-69R1, 1998) evicts the entry of the
lowest priority

    clock at its last use + uses x cost / size

and sets the clock to that priority, so that whatever is not used any more is overtaken,
however popular it was. An entry is a node of the chunk tree, and leaves go first.

*Cost* is that of prefilling the node's tokens again: what a token costs by itself
(projections and MLP), and attention to the tokens before it. Those are the tokens of its own
path and, for text after documents, of every earlier segment. *Size* is the number of tokens.
So the ratio is 1 for tokens that see nothing, and grows with depth. Evicting a document does
not make the text behind it invalid, so neither's cost includes the other's.

*Uses* are requests: the one that computed the tokens, and each that found them when it was
admitted. A node that is split hands its uses to both parts. The uses of what was evicted are
remembered for a while: else, in a cache that holds a small part of what is in use, documents
come and go without ever being known as popular.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from sglang.srt.mem_cache.evict_policy import EvictionStrategy

from sglang_lazy.cache.context import Renewed, TextContext

if TYPE_CHECKING:
    from sglang.srt.mem_cache.radix_cache import TreeNode

FALLING = ("mru", "filo")
"""Policies of SGLang under which a node's priority falls while it waits in the tree."""

BREAK_EVEN_KEYS = 26_000.0
"""``break_even_keys`` of an 8B Llama 3, rounded; see :class:`GreedyDual`."""


MAX_REMEMBERED = 32_768
"""Evicted nodes whose uses are remembered: about 8 MB."""


class _Record:
    """What the policy notes on a node.

    Attributes:
        uses: requests that computed or found its tokens.
        clock: the policy's clock at the last use.
        start: how many tokens its first token attends to.
    """

    __slots__ = ("clock", "start", "uses")

    def __init__(self, uses: int, clock: float, start: int) -> None:
        self.uses = uses
        self.clock = clock
        self.start = start


class GreedyDual(EvictionStrategy):
    """The policy. Its notes lie on the nodes, so they go with them.

    Args:
        break_even_keys: how many keys a token attends to when attention costs as much as
            all other computation on it.

    Attributes:
        clock: the highest priority that was evicted.
    """

    def __init__(self, break_even_keys: float = BREAK_EVEN_KEYS) -> None:
        self.break_even_keys = break_even_keys
        self.clock = 0.0
        self._remembered: OrderedDict[Hashable, int] = OrderedDict()

    def get_priority(self, node: TreeNode) -> tuple[float, float]:
        """The priority; of equals, what was used last stays longest."""
        record = self._record(node)
        value = record.uses * self.cost_per_token(record.start, len(node.key))
        return record.clock + value, node.last_access_time

    def cost_per_token(self, start: int, length: int) -> float:
        """Mean cost of ``length`` tokens, the first of which attends to ``start`` before it.

        In units of what a token costs besides attention.
        """
        return 1 + (start + (length + 1) / 2) / self.break_even_keys

    def uses(self, node: TreeNode) -> int:
        return self._record(node).uses

    def start(self, node: TreeNode) -> int:
        """How many tokens the node's first token attends to."""
        return self._record(node).start

    def count(self, nodes: Iterable[TreeNode]) -> None:
        """One request more uses these nodes."""
        for node in nodes:
            record = self._record(node)
            record.uses += 1
            record.clock = self.clock

    def refresh(self, nodes: Iterable[TreeNode]) -> None:
        """The nodes are still in use, by a request that was counted."""
        for node in nodes:
            self._record(node).clock = self.clock

    def note(self, node: TreeNode) -> None:
        """Take down what is remembered of a new node's tokens, if that was not done yet."""
        self._record(node)

    def split(self, head: TreeNode, tail: TreeNode) -> None:
        """``tail``, which was noted, was cut in two: ``head``, new, stands above it."""
        record = self._record(tail)
        setattr(head, _RECORD, _Record(record.uses, record.clock, record.start))
        record.start += len(head.key)

    def advance(self, node: TreeNode) -> None:
        """The node is evicted, as the one of the lowest priority."""
        # A parent whose last child went before it may lie behind the clock.
        self.clock = max(self.clock, self.get_priority(node)[0])

    def remember(self, node: TreeNode) -> None:
        """The node leaves the tree, and may come back."""
        record = self._record(node)
        name = _name(node, record.start)
        if name is not None:
            self._remembered[name] = record.uses
            if len(self._remembered) > MAX_REMEMBERED:
                self._remembered.popitem(last=False)

    def reset(self) -> None:
        self.clock = 0.0
        self._remembered.clear()

    def _record(self, node: TreeNode) -> _Record:
        record: _Record | None = getattr(node, _RECORD, None)
        if record is None:
            start = self._find_start(node)
            uses = 1 + self._remembered.pop(_name(node, start), 0)
            record = _Record(uses, self.clock, start)
            setattr(node, _RECORD, record)
        return record

    def _find_start(self, node: TreeNode) -> int:
        parent = node.parent
        if parent.parent is None:
            return _tokens_before(node.key.extra_key)
        return self._record(parent).start + len(parent.key)


_RECORD = "_sglang_lazy_use"


def _name(node: TreeNode, start: int) -> Hashable:
    """What evicted nodes are remembered by: where a node stands and how it begins.

    Two nodes may share a name; then one may be taken to be more popular than it is. What was
    popular stays so when the model's weights change. None for text after documents, which is
    seldom seen again, and for what a request holds in private.
    """
    namespace = node.key.extra_key
    if isinstance(namespace, Renewed):
        namespace = namespace.tenant
    if isinstance(namespace, TextContext) or type(namespace) is object:
        return None
    return namespace, start, node.key.token_ids[:_NAME_TOKENS].tobytes()


_NAME_TOKENS = 8


def _tokens_before(namespace: Hashable) -> int:
    """Tokens that the first token of a path in this namespace attends to."""
    return namespace.num_tokens if isinstance(namespace, TextContext) else 0


class LeafHeap(set["TreeNode"]):
    """The evictable leaves of a tree: a set to SGLang, which also gives the lowest priority.

    SGLang's own eviction asks every leaf for its priority each time. Here a heap is kept from
    one eviction to the next, which costs one pop a node, however many leaves there are. A node
    comes and goes several times while a request uses it, so that is only noted, and what has
    stayed is pushed later: when something is evicted, or when many nodes wait for it, so that no
    eviction has to push more than those.

    A leaf whose priority has risen since it was pushed is put back when its turn comes, so
    priorities must not fall.

    Args:
        strategy: gives priorities.
    """

    def __init__(self, strategy: EvictionStrategy) -> None:
        super().__init__()
        self._strategy = strategy
        self._fresh: dict[TreeNode, None] = {}  # an ordered set: leaves that are still to be pushed
        self._heap: list[tuple[Any, int, TreeNode]] = []
        self._pushes = 0

    def add(self, node: TreeNode) -> None:
        """A node has become an evictable leaf."""
        super().add(node)
        self._fresh[node] = None
        if len(self._fresh) > _MAX_FRESH:
            self._push_fresh()

    def remove(self, node: TreeNode) -> None:
        """A node is locked, has got a child, or has left the tree."""
        super().remove(node)
        self._fresh.pop(node, None)

    def discard(self, node: TreeNode) -> None:
        """As ``remove``, of a node that may not be there."""
        super().discard(node)
        self._fresh.pop(node, None)

    def clear(self) -> None:
        super().clear()
        self._fresh.clear()
        self._heap.clear()

    def lowest(self) -> TreeNode | None:
        """The leaf to evict next; None where there is none. It stays."""
        self._push_fresh()
        while self._heap:
            priority, order, node = self._heap[0]
            if node not in self:
                heapq.heappop(self._heap)
                continue
            now = self._strategy.get_priority(node)
            if now == priority:
                return node
            heapq.heapreplace(self._heap, (now, order, node))
        return None

    @property
    def num_entries(self) -> int:
        """Of the heap; some are out of date."""
        return len(self._heap)

    def _push_fresh(self) -> None:
        for node in self._fresh:
            self._pushes += 1
            heapq.heappush(self._heap, (self._strategy.get_priority(node), self._pushes, node))
        self._fresh.clear()
        if len(self._heap) > 2 * len(self) + _SLACK:
            self._compact()

    def _compact(self) -> None:
        """Keep each leaf's last entry."""
        self._heap.sort(key=lambda entry: entry[1])
        last = {entry[2]: entry for entry in self._heap if entry[2] in self}
        self._heap = list(last.values())
        heapq.heapify(self._heap)


_MAX_FRESH = 256  # well under a millisecond of pushes
_SLACK = 256
