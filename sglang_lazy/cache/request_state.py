"""What the cache knows of a request with documents."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from sglang_lazy.cache.detached import DetachedRun
from sglang_lazy.cache.evictable_tree import NodeBundle
from sglang_lazy.cache.layout import PromptLayout
from sglang_lazy.cache.prompt import DocumentPrompt

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.radix_cache import TreeNode

STATE = "_sglang_lazy_state"
"""Attribute of a request."""


class RequestState:
    """The prompt, and from the request's admission on where its tokens lie.

    Attributes:
        prompt: segments and keys.
        weights_version: of the model's weights, when the keys were made.
        layout: of the row; None while the request is not admitted.
        sink: the sink token that documents see, where the prompt does not hold it.
        heads: by segment, the heads of tails that had to be computed.
        bundle: the tree nodes to lock.
        missing: missing tokens of documents when the request was matched, by document;
            of those that may come from the cache.
        wait_limit: the latest claim on documents when it began to wait; None if it has not
            waited, or was admitted since.
        decode_spans: derived from the layout and the bundle, when decoding.
    """

    def __init__(self, prompt: DocumentPrompt, weights_version: int = 0) -> None:
        self.prompt = prompt
        self.weights_version = weights_version
        self.layout: PromptLayout | None = None
        self.sink: DetachedRun | None = None
        self.heads: dict[int, DetachedRun] = {}
        self.bundle = NodeBundle(())
        self.missing: dict[Hashable, int] = {}
        self.wait_limit: int | None = None
        self.decode_spans: Any = None

    def detached(self) -> list[DetachedRun]:
        """Everything that the row does not hold."""
        return [*([self.sink] if self.sink else []), *self.heads.values()]

    def detached_in(self, start: int, stop: int) -> dict[int | None, DetachedRun]:
        """What the pass over [start, stop) of the row needs of it: the sink, under None, and heads.

        A head is computed in the pass that begins to compute its tail.
        """
        assert self.layout is not None
        runs: dict[int | None, DetachedRun] = {}
        if self.sink is not None:
            runs[None] = self.sink
        if self.heads:
            segments = self.layout.computed_segments(start, stop)
            runs |= {i: self.heads[i] for i in segments if i in self.heads}
        return runs

    def documents_until(self, end: int) -> list[Hashable]:
        """Documents all of whose tokens lie before ``end`` in the row."""
        assert self.layout is not None
        ends = {piece.segment: piece.end for piece in self.layout.pieces}
        return [
            self.prompt.document_id(segment)
            for segment, last in ends.items()
            if last <= end and self.layout.is_document[segment]
        ]

    def bundle_of(self, nodes: Sequence[TreeNode | None]) -> NodeBundle:
        """What to lock: each segment's node, and what is detached."""
        return NodeBundle((*nodes, *(n for run in self.detached() for n in run.nodes)))


def admitted_state(req: Req) -> RequestState | None:
    """The state of a request with documents that holds a layout; None for plain prompts."""
    state = getattr(req, STATE, None)
    return state if state is not None and state.layout is not None else None
