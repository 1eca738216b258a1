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
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams, MatchResult

from sglang_lazy import compat
from sglang_lazy.cache.chunk_tree import ChunkTree, NodeBundle
from sglang_lazy.cache.context import ContextTable, Tokens
from sglang_lazy.cache.in_flight import InFlightDocuments
from sglang_lazy.cache.layout import PromptLayout
from sglang_lazy.cache.prompt import DocumentPrompt
from sglang_lazy.observe.statistics import DocumentStatistics
from sglang_lazy.request.wire import PromptShape

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams, EvictResult
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams

    from sglang_lazy.observe.metrics import ChunkCacheMetrics

_STATE = "_sglang_lazy_state"


class RequestState:
    """What the cache knows of a request with documents, from its admission on."""

    def __init__(self, prompt: DocumentPrompt) -> None:
        self.prompt = prompt
        self.layout: PromptLayout | None = None
        self.sink_slot: torch.Tensor | None = None
        self.bundle = NodeBundle(())
        self.missing: dict[Hashable, int] = {}  # missing tokens of documents, when matched
        self.decode_spans: Any = None  # derived from the layout and the bundle, when decoding


def admitted_state(req: Req) -> RequestState | None:
    """The state of a request with documents that holds a layout; None for plain prompts."""
    state = getattr(req, _STATE, None)
    return state if state is not None and state.layout is not None else None


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
        self.drop_unwritten_sinks()
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
        sink_node = None
        if is_admission:
            # Before any match: making room for the sink may evict what was matched.
            state.sink_slot = None
            if prompt.has_detached_sink:
                sink = self.find_or_create_sink(prompt.namespace, prompt.context[0])
                if sink.node is None:  # a full pool: SGLang will not admit the request now
                    return compat.match_result(self._no_slots(), NodeBundle(()))
                state.sink_slot, sink_node = sink.runs[0], sink.node

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
        bundle = NodeBundle((*nodes, sink_node))
        if is_admission:
            state.layout = PromptLayout(
                lengths=tuple(lengths),
                is_document=prompt.is_document,
                cached=tuple(cached),
                context_length=len(prompt.context),
                has_own_context=prompt.has_own_context,
            )
            state.bundle = bundle
            state.decode_spans = None
            state.missing = {
                prompt.document_id(i): lengths[i] - cached[i]
                for i, is_document in enumerate(prompt.is_document)
                if is_document and cached[i] < lengths[i]
            }
            permuted = np.frombuffer(all_ids, dtype=np.int64)[state.layout.permutation]
            req.full_untruncated_fill_ids = array("q", permuted.tobytes())
            self._report(req, state.layout)
        return compat.match_result(matched, bundle)

    def cache_unfinished_req(self, req: Req, chunked: bool = False, **kwargs: Any) -> None:
        """Hand what was computed so far to the tree; the request goes on."""
        self.drop_unwritten_sinks()
        state = admitted_state(req)
        if state is None:
            super().cache_unfinished_req(req, chunked=chunked, **kwargs)
            return
        end = len(req.get_fill_ids())
        old = req.last_node
        self._store(req, state, end, chunked=chunked)
        if not chunked:
            self._in_flight.release(req.rid)
        self.inc_lock_ref(state.bundle)
        self.dec_lock_ref(old)
        req.last_node = state.bundle
        req.cache_protected_len = end
        req.prefix_indices = self._row(req)[:end].to(torch.int64, copy=True)

    def cache_finished_req(
        self, req: Req, is_insert: bool = True, *, kv_len_to_handle: int, **kwargs: Any
    ) -> None:
        """Take over, or free, everything a finished, aborted or retracted request holds."""
        self.drop_unwritten_sinks()
        state = admitted_state(req)
        if state is None:
            super().cache_finished_req(req, is_insert, kv_len_to_handle=kv_len_to_handle, **kwargs)
            return
        self._in_flight.release(req.rid)
        if is_insert and not self.disable_finished_insert:
            self._store(req, state, kv_len_to_handle)
        else:
            own = self._row(req)[req.cache_protected_len : kv_len_to_handle]
            self.token_to_kv_pool_allocator.free(own)
        if req.last_node is not None:
            self.dec_lock_ref(req.last_node)
        state.layout = None

    def _store(self, req: Req, state: RequestState, end: int, *, chunked: bool = False) -> None:
        """Give the request's own slots, ``row[cache_protected_len:end]``, to the tree."""
        prompt, layout = state.prompt, state.layout
        assert layout is not None
        row = self._row(req)
        all_ids = req.origin_input_ids + req.output_ids
        nodes = list(state.bundle.nodes)
        for piece in layout.pieces:
            piece_end = end if piece is layout.pieces[-1] else min(piece.end, end)
            own_start = max(piece.start, req.cache_protected_len)
            if own_start >= piece_end:
                continue
            num_tokens = piece.offset + piece_end - piece.start
            head = [row[p.start : p.end] for p in layout.pieces_of(piece.segment)[:-1]]
            slots = torch.cat((*head, row[piece.start : piece_end])).to(torch.int64)
            key = prompt.keys[piece.segment]
            stored = self.store_segment(
                key,
                prompt.tokens(piece.segment, all_ids)[:num_tokens],
                self._context_slots(state, row)[: len(key.prefix)],
                slots,
                chunked=chunked,
                priority=getattr(req, "priority", 0) or 0,
            )
            nodes[piece.segment] = stored.node
            self.statistics.stored(prompt, layout, piece.segment, num_tokens, stored.node)
            # From token `first` of the segment on, the slots were the request's own.
            first = piece.offset + own_start - piece.start
            self.token_to_kv_pool_allocator.free(slots[first : stored.num_known])
            row[own_start:piece_end] = stored.slots[first:].to(row.dtype)
        state.bundle = NodeBundle(nodes)
        state.decode_spans = None
        self.statistics.publish()

    def _context_slots(self, state: RequestState, row: torch.Tensor) -> torch.Tensor:
        """int64 slots of what documents see before themselves."""
        if state.sink_slot is not None:
            return state.sink_slot
        assert state.layout is not None
        spans = state.layout.context_spans()
        runs = [row[s.start : s.start + s.length] for s in spans]
        return torch.cat(runs).to(torch.int64) if runs else self._no_slots()

    def _state_of(self, req: Req) -> RequestState | None:
        """The request's state, made at first sight; None for a prompt without documents."""
        state: RequestState | None = getattr(req, _STATE, None)
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
            setattr(req, _STATE, state)
            if state.prompt.has_detached_sink:
                self._leave_room_for_sink(req)
        if len(req.origin_input_ids) != state.prompt.shape.num_tokens:
            return None  # SGLang has replaced the prompt of a request that it will abort
        return state

    def _leave_room_for_sink(self, req: Req) -> None:
        """Clip an answer that could fill the pool.

        SGLang clips it so that prompt and answer just fit; the sink is one token more,
        and a request that can never be admitted blocks the queue.
        """
        params = req.sampling_params
        room = self.token_to_kv_pool_allocator.size - len(req.origin_input_ids) - 3
        params.max_new_tokens = min(params.max_new_tokens, max(room, 0))
        params.min_new_tokens = min(params.min_new_tokens, params.max_new_tokens)

    def _row(self, req: Req) -> torch.Tensor:
        return self.req_to_token_pool.req_to_token[req.req_pool_idx]

    def _no_slots(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.int64, device=self.device)

    @staticmethod
    def _report(req: Req, layout: PromptLayout) -> None:
        """Note what was reused, for the answer's ``meta_info``; once, like ``cached_tokens``."""
        if req.retracted_stain:
            return
        documents = [i for i, is_document in enumerate(layout.is_document) if is_document]
        info: Mapping[str, int] = {
            "documents": len(documents),
            "hits": sum(layout.cached[i] == layout.lengths[i] for i in documents),
            "cached_tokens": sum(layout.cached[i] for i in documents),
        }
        compat.attach_info(req, info)
