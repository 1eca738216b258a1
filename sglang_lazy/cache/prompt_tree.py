"""Prompts in the chunk tree: matched, laid out and stored, segment by segment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from sglang_lazy.cache.chunk_tree import ChunkTree
from sglang_lazy.cache.context import Tokens
from sglang_lazy.cache.detached import DetachedRun
from sglang_lazy.cache.evictable_tree import NodeBundle
from sglang_lazy.cache.eviction import BREAK_EVEN_KEYS
from sglang_lazy.cache.layout import PromptLayout
from sglang_lazy.cache.prompt import SegmentKey
from sglang_lazy.cache.request_state import RequestState
from sglang_lazy.observe.statistics import DocumentStatistics

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.radix_cache import TreeNode

    from sglang_lazy.observe.metrics import ChunkCacheMetrics


class PromptTree(ChunkTree):
    """A chunk tree that takes and gives whole prompts.

    Args:
        params: SGLang's own.
        metrics: where to export statistics, or None.
        break_even_keys: see :class:`~sglang_lazy.cache.eviction.GreedyDual`.
    """

    def __init__(
        self,
        params: CacheInitParams,
        metrics: ChunkCacheMetrics | None = None,
        break_even_keys: float = BREAK_EVEN_KEYS,
    ) -> None:
        self.statistics = DocumentStatistics(metrics)
        super().__init__(params, self.statistics.resident, break_even_keys)

    def had_better_wait(self, state: RequestState) -> bool:
        """Whether others are computing enough of what a request misses: ``state.missing``."""
        raise NotImplementedError

    def match_prompt(
        self, state: RequestState, all_ids: Tokens, limit: int, *, lay_out: bool
    ) -> tuple[torch.Tensor, NodeBundle]:
        """Find what is cached of a prompt.

        Args:
            state: the request's; given its layout and the nodes to lock if ``lay_out``.
            all_ids: prompt and generated tokens, in logical order.
            limit: tokens that may come from the cache: those before it.
            lay_out: whether the request is about to be admitted. Where it had better wait,
                or there is no room for its detached tokens, nothing is found and it gets
                no layout.

        Returns:
            int64 slots of the cached tokens, in the row's order, and what to lock.
        """
        prompt = state.prompt
        lengths, cached, nodes = [], [], []
        runs: list[torch.Tensor] = []
        for i, key in enumerate(prompt.keys):
            tokens = prompt.tokens(i, all_ids)
            # Nothing at or behind `limit` may come from the cache: its logits are wanted.
            # Nor may more be locked than is used, since SGLang counts on the rest.
            hit = self.match_segment(key, tokens[: max(limit - prompt.starts[i], 0)])
            runs += hit.runs
            lengths.append(len(tokens))
            cached.append(hit.length)
            nodes.append(hit.node)
        matched = torch.cat(runs) if runs else self._no_slots()
        bundle = NodeBundle(nodes)
        if not lay_out:
            return matched, bundle
        missing = {
            i: lengths[i] - cached[i]
            for i, is_document in enumerate(prompt.is_document)
            if is_document and cached[i] < lengths[i]
        }
        # Of documents that others compute. What lies behind `limit` no waiting can bring.
        state.missing = {
            prompt.document_id(i): max(min(lengths[i], limit - prompt.starts[i]) - cached[i], 0)
            for i in missing
        }
        if self.had_better_wait(state) or not self._detach(state, bundle, missing):
            state.layout = None
            return self._no_slots(), NodeBundle(())
        state.bundle = state.bundle_of(nodes)
        state.layout = PromptLayout(
            lengths=tuple(lengths),
            is_document=prompt.is_document,
            cached=tuple(cached),
            context_length=len(prompt.context),
            has_own_context=prompt.has_own_context,
            heads=prompt.heads,
        )
        state.decode_spans = None
        return matched, state.bundle

    def _detach(self, state: RequestState, found: NodeBundle, missing: Iterable[int]) -> bool:
        """Find, or make room for, what documents see and the prompt does not hold.

        Args:
            state: the request's; its runs are made anew.
            found: nodes that must not be evicted for it.
            missing: segments of documents that are to be computed.

        Returns:
            Whether there was room.
        """
        prompt = state.prompt

        def find(key: SegmentKey, tokens: Tokens) -> DetachedRun:
            return DetachedRun(key, tokens, self.match_segment(key, tokens))

        state.sink, state.heads, state.layout = None, {}, None
        if prompt.has_detached_sink:
            state.sink = find(prompt.context_key, prompt.context)
        for i in missing:
            if prompt.heads[i]:
                state.heads[i] = find(prompt.head_key, prompt.local_head(i))
        lacking = [run for run in state.detached() if run.num_missing]
        if not lacking:
            return True
        keep = NodeBundle((*found.nodes, *state.bundle_of(()).nodes))
        counts = [run.num_missing for run in lacking]
        slots = self.allocate(sum(counts), keep)
        if slots is None:
            return False
        for run, own in zip(lacking, slots.split(counts), strict=True):
            run.fill(own, self.hold_private(run.tokens[run.num_cached :], own))
        return True

    def store_prompt(
        self, req: Req, state: RequestState, end: int, *, chunked: bool = False
    ) -> list[TreeNode]:
        """Give the request's own slots to the tree: ``row[cache_protected_len:end]`` and detached.

        Args:
            chunked: whether more passes over the prompt follow.

        Returns:
            Private nodes to release, as soon as they are unlocked.
        """
        prompt, layout = state.prompt, state.layout
        assert layout is not None
        row = self._row(req)
        all_ids = req.origin_input_ids + req.output_ids
        priority: int = getattr(req, "priority", 0) or 0
        settled: list[TreeNode] = []
        if state.sink is not None:
            settled += self._settle(state.sink, self._no_slots(), priority)
        nodes = list(state.bundle.nodes[: len(prompt.keys)])
        for piece in layout.pieces:
            piece_end = end if piece is layout.pieces[-1] else min(piece.end, end)
            own_start = max(piece.start, req.cache_protected_len)
            if own_start >= piece_end:
                continue
            num_tokens = piece.offset + piece_end - piece.start
            before = [row[p.start : p.end] for p in layout.pieces_of(piece.segment)[:-1]]
            slots = torch.cat((*before, row[piece.start : piece_end])).to(torch.int64)
            prefix_slots = self._no_slots()
            if prompt.is_document[piece.segment]:
                prefix_slots = self._context_slots(state, row)
                head = state.heads.get(piece.segment)
                if head is not None:
                    settled += self._settle(head, prefix_slots, priority)
                    prefix_slots = torch.cat((prefix_slots, head.slots))
            stored = self.store_segment(
                prompt.keys[piece.segment],
                prompt.tokens(piece.segment, all_ids)[:num_tokens],
                prefix_slots,
                slots,
                priority=priority,
            )
            nodes[piece.segment] = stored.node
            self.statistics.stored(prompt, layout, piece.segment, num_tokens, stored.node)
            # From token `first` of the segment on, the slots were the request's own.
            first = piece.offset + own_start - piece.start
            self.token_to_kv_pool_allocator.free(slots[first : stored.num_known])
            row[own_start:piece_end] = stored.slots[first:].to(row.dtype)
        state.bundle = state.bundle_of(nodes)
        state.decode_spans = None
        if not chunked:
            self.touch(state.bundle, priority)
        self.statistics.publish()
        return settled

    def _settle(
        self, run: DetachedRun, prefix_slots: torch.Tensor, priority: int
    ) -> list[TreeNode]:
        """Give a detached run to the tree, once a pass has computed it."""
        private = run.private
        if private is None or not run.is_planned:
            return []
        stored = self.store_segment(run.key, run.tokens, prefix_slots, run.slots, priority=priority)
        self.token_to_kv_pool_allocator.free(run.slots[run.num_cached : stored.num_known])
        run.settle(stored.slots, stored.node)
        return [private]

    def _context_slots(self, state: RequestState, row: torch.Tensor) -> torch.Tensor:
        """int64 slots of what documents see before themselves."""
        if state.sink is not None:
            return state.sink.slots
        assert state.layout is not None
        spans = state.layout.context_spans()
        runs = [row[s.start : s.start + s.length] for s in spans]
        return torch.cat(runs).to(torch.int64) if runs else self._no_slots()

    def _row(self, req: Req) -> torch.Tensor:
        return self.req_to_token_pool.req_to_token[req.req_pool_idx]

    def _no_slots(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.int64, device=self.device)
