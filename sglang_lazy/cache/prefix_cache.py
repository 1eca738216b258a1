"""The chunk tree as SGLang's prefix cache: whose tokens lie where, and who owns them.

A request's row of ``req_to_token`` at any moment:

    0                cache_protected_len            kv_len
    |-- tree's slots, locked --|-- the request's own slots --|

After each pass all computed tokens are handed to the tree, so the boundary
moves to the end of what was computed. Where the tree already holds a token
(somebody else computed it at the same time), the row takes the tree's slot and
the request's own goes back to the allocator: one copy, one owner.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams, MatchResult

from sglang_lazy import compat
from sglang_lazy.cache.chunk_tree import ChunkTree, NodeBundle
from sglang_lazy.cache.context import ContextTable, Tokens
from sglang_lazy.cache.detached import DetachedRun
from sglang_lazy.cache.in_flight import InFlightDocuments
from sglang_lazy.cache.layout import PromptLayout
from sglang_lazy.cache.prompt import DocumentPrompt, SegmentKey
from sglang_lazy.cache.request_state import STATE, RequestState, admitted_state
from sglang_lazy.cache.room import clip_answer, reason_to_refuse
from sglang_lazy.observe.statistics import DocumentStatistics
from sglang_lazy.request.wire import PromptShape

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams, EvictResult
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.radix_cache import TreeNode

    from sglang_lazy.observe.metrics import ChunkCacheMetrics


class LazyPrefixCache(ChunkTree):
    """SGLang's radix cache, with documents that hit at any position.

    Args:
        params: SGLang's own.
        sink_token_id: token that documents see in mode ``sink``; None refuses that mode.
        hash_seed: see :class:`~sglang_lazy.cache.context.ContextTable`.
        metrics: where to export statistics, or None.
    """

    def __init__(
        self,
        params: CacheInitParams,
        sink_token_id: int | None = None,
        hash_seed: int | None = None,
        metrics: ChunkCacheMetrics | None = None,
    ) -> None:
        self.statistics = DocumentStatistics(metrics)
        super().__init__(params, self.statistics.resident)
        self.sink_token_id = sink_token_id
        self._contexts = ContextTable(hash_seed)

    def reset(self) -> None:
        super().reset()
        self._in_flight = InFlightDocuments()
        self.statistics.publish()

    def evict(self, params: EvictParams) -> EvictResult:
        result = super().evict(params)
        self.statistics.publish()
        return result

    def should_wait(self, req: Req) -> bool:
        """Whether a matched request had better wait for documents that others compute."""
        state = admitted_state(req)
        return state is not None and self._in_flight.worth_waiting_for(state.missing)

    def reason_to_refuse(self, req: Req) -> str | None:
        """Why a request could never be admitted: a sentence; None where it can."""
        state = self._state_of(req)
        if state is None:
            return None
        pool = self.token_to_kv_pool_allocator.size
        return reason_to_refuse(req, pool, state.prompt.num_detached)

    def lacks_room(self, req: Req) -> bool:
        """Whether a request was matched in vain, for want of slots for its detached tokens.

        It must not be admitted: nothing says where its documents lie.
        """
        state = self._state_of(req)
        return state is not None and state.layout is None

    def note_admission(self, req: Req) -> None:
        """Count what an admitted request found; it will compute its missing documents."""
        state = admitted_state(req)
        if state is None:
            return
        self._in_flight.claim(req.rid, state.missing)
        if not req.retracted_stain:  # counted once, like ``cached_tokens``
            assert state.layout is not None
            self.statistics.admitted(state.prompt, state.layout, state.bundle.nodes)

    def match_prefix(self, params: MatchPrefixParams) -> MatchResult:
        """Match a prompt; for one with documents, also lay out its row.

        SGLang asks twice: to order the waiting queue, and to admit a request. Only
        the second call passes the request's own ``full_untruncated_fill_ids``, and
        only then is that array put into the row's order.
        """
        self.drop_unlocked()
        req = params.req
        state = None if req is None else self._state_of(req)
        if state is None:
            return super().match_prefix(params)
        assert req is not None
        is_admission = params.key.token_ids is req.full_untruncated_fill_ids
        # An array in the row's order must not be read as the prompt.
        all_ids = req.origin_input_ids + req.output_ids
        start = time.perf_counter()
        result = self._match_prompt(req, state, all_ids, len(params.key), is_admission)
        if is_admission:
            self.statistics.matched(start)
        return result

    def _match_prompt(
        self, req: Req, state: RequestState, all_ids: Tokens, limit: int, is_admission: bool
    ) -> MatchResult:
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
        if is_admission:
            missing = {
                i: lengths[i] - cached[i]
                for i, is_document in enumerate(prompt.is_document)
                if is_document and cached[i] < lengths[i]
            }
            if not self._detach(state, bundle, missing):
                return compat.match_result(self._no_slots(), NodeBundle(()))
            bundle = state.bundle = state.bundle_of(nodes)
            state.layout = PromptLayout(
                lengths=tuple(lengths),
                is_document=prompt.is_document,
                cached=tuple(cached),
                context_length=len(prompt.context),
                has_own_context=prompt.has_own_context,
                heads=prompt.heads,
            )
            state.decode_spans = None
            state.missing = {prompt.document_id(i): n for i, n in missing.items()}
            permuted = np.frombuffer(all_ids, dtype=np.int64)[state.layout.permutation]
            req.full_untruncated_fill_ids = array("q", permuted.tobytes())
            self._report(req, state)
        return compat.match_result(matched, bundle)

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

    def cache_unfinished_req(self, req: Req, chunked: bool = False, **kwargs: Any) -> None:
        """Hand what was computed so far to the tree; the request goes on."""
        self.drop_unlocked()
        state = admitted_state(req)
        if state is None:
            super().cache_unfinished_req(req, chunked=chunked, **kwargs)
            return
        end = len(req.get_fill_ids())
        old = req.last_node
        settled = self._store(req, state, end, chunked=chunked)
        if not chunked:
            self._in_flight.release(req.rid)
        self.inc_lock_ref(state.bundle)
        self.dec_lock_ref(old)
        for node in settled:
            self.release_private(node)
        req.last_node = state.bundle
        req.cache_protected_len = end
        req.prefix_indices = self._row(req)[:end].to(torch.int64, copy=True)

    def cache_finished_req(
        self, req: Req, is_insert: bool = True, *, kv_len_to_handle: int, **kwargs: Any
    ) -> None:
        """Take over, or free, everything a finished, aborted or retracted request holds."""
        self.drop_unlocked()
        state = admitted_state(req)
        if state is None:
            super().cache_finished_req(req, is_insert, kv_len_to_handle=kv_len_to_handle, **kwargs)
            return
        self._in_flight.release(req.rid)
        settled: list[TreeNode] = []
        if is_insert and not self.disable_finished_insert:
            settled = self._store(req, state, kv_len_to_handle)
        else:
            own = self._row(req)[req.cache_protected_len : kv_len_to_handle]
            self.token_to_kv_pool_allocator.free(own)
        if req.last_node is not None:
            self.dec_lock_ref(req.last_node)
        for node in settled:
            self.release_private(node)
        state.layout = None

    def _store(
        self, req: Req, state: RequestState, end: int, *, chunked: bool = False
    ) -> list[TreeNode]:
        """Give the request's own slots to the tree: ``row[cache_protected_len:end]`` and detached.

        Returns:
            Private nodes to release, as soon as they are unlocked.
        """
        prompt, layout = state.prompt, state.layout
        assert layout is not None
        row = self._row(req)
        all_ids = req.origin_input_ids + req.output_ids
        options: dict[str, Any] = {
            "chunked": chunked,
            "priority": getattr(req, "priority", 0) or 0,
        }
        settled: list[TreeNode] = []
        if state.sink is not None:
            settled += self._settle(state.sink, self._no_slots(), options)
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
                    settled += self._settle(head, prefix_slots, options)
                    prefix_slots = torch.cat((prefix_slots, head.slots))
            stored = self.store_segment(
                prompt.keys[piece.segment],
                prompt.tokens(piece.segment, all_ids)[:num_tokens],
                prefix_slots,
                slots,
                **options,
            )
            nodes[piece.segment] = stored.node
            self.statistics.stored(prompt, layout, piece.segment, num_tokens, stored.node)
            # From token `first` of the segment on, the slots were the request's own.
            first = piece.offset + own_start - piece.start
            self.token_to_kv_pool_allocator.free(slots[first : stored.num_known])
            row[own_start:piece_end] = stored.slots[first:].to(row.dtype)
        state.bundle = state.bundle_of(nodes)
        state.decode_spans = None
        self.statistics.publish()
        return settled

    def _settle(
        self, run: DetachedRun, prefix_slots: torch.Tensor, options: Mapping[str, Any]
    ) -> list[TreeNode]:
        """Give a detached run to the tree, once a pass has computed it."""
        private = run.private
        if private is None or not run.is_planned:
            return []
        stored = self.store_segment(run.key, run.tokens, prefix_slots, run.slots, **options)
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

    def _state_of(self, req: Req) -> RequestState | None:
        """The request's state, made at first sight; None for a prompt without documents."""
        state: RequestState | None = getattr(req, STATE, None)
        if state is None:
            shape = PromptShape.from_custom_params(req.sampling_params.custom_params)
            if shape is None:
                return None
            namespace = compat.namespace(req)
            state = RequestState(
                DocumentPrompt(
                    shape, req.origin_input_ids, namespace, self.sink_token_id, self._contexts
                )
            )
            setattr(req, STATE, state)
            pool = self.token_to_kv_pool_allocator.size
            clip_answer(req, pool, state.prompt.num_detached)
        if len(req.origin_input_ids) != state.prompt.shape.num_tokens:
            return None  # SGLang has replaced the prompt of a request that it will abort
        return state

    def _row(self, req: Req) -> torch.Tensor:
        return self.req_to_token_pool.req_to_token[req.req_pool_idx]

    def _no_slots(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.int64, device=self.device)

    @staticmethod
    def _report(req: Req, state: RequestState) -> None:
        """Note what was reused, for the answer's ``meta_info``; once, like ``cached_tokens``.

        A hit is a document of which all that can come from the cache did.
        """
        layout = state.layout
        if req.retracted_stain or layout is None:
            return
        documents = [i for i, is_document in enumerate(layout.is_document) if is_document]
        info: Mapping[str, int] = {
            "documents": len(state.prompt.shape.document_spans),
            "hits": sum(layout.cached[i] == layout.lengths[i] for i in documents),
            "cached_tokens": sum(layout.cached[i] for i in documents),
        }
        compat.attach_info(req, info)
