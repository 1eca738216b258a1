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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams, MatchResult

from sglang_lazy import compat
from sglang_lazy.cache.context import ContextTable, Renewed
from sglang_lazy.cache.evictable_tree import NodeBundle
from sglang_lazy.cache.eviction import BREAK_EVEN_KEYS
from sglang_lazy.cache.in_flight import InFlightDocuments
from sglang_lazy.cache.layout import PromptLayout
from sglang_lazy.cache.prompt import DocumentPrompt
from sglang_lazy.cache.prompt_tree import PromptTree
from sglang_lazy.cache.request_state import STATE, RequestState, admitted_state
from sglang_lazy.cache.room import clip_answer, reason_to_refuse
from sglang_lazy.request.wire import PromptShape

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams, EvictResult
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.radix_cache import TreeNode

    from sglang_lazy.observe.metrics import ChunkCacheMetrics


class LazyPrefixCache(PromptTree):
    """SGLang's radix cache, with documents that hit at any position.

    Args:
        params: SGLang's own.
        sink_token_id: token that documents see in mode ``sink``; None refuses that mode.
        hash_seed: see :class:`~sglang_lazy.cache.context.ContextTable`.
        metrics: where to export statistics, or None.
        break_even_keys: see :class:`~sglang_lazy.cache.eviction.GreedyDual`.

    Attributes:
        preempted: requests that were put back in this round of admission, for others' sake.
    """

    def __init__(
        self,
        params: CacheInitParams,
        sink_token_id: int | None = None,
        hash_seed: int | None = None,
        metrics: ChunkCacheMetrics | None = None,
        break_even_keys: float = BREAK_EVEN_KEYS,
    ) -> None:
        super().__init__(params, metrics, break_even_keys)
        self.preempted: Sequence[Req] = ()
        self.sink_token_id = sink_token_id
        self._contexts = ContextTable(hash_seed)

    def reset(self) -> None:
        super().reset()
        self._in_flight = InFlightDocuments()
        self._weights_version = 0
        self.statistics.publish()

    def expire_documents(self) -> None:
        """The model's weights have changed, and the cache is kept: what was computed with the
        old ones is not found any more by prompts with documents, and only takes up slots."""
        self._weights_version += 1

    def evict_documents(self) -> None:
        super().evict_documents()
        self.statistics.publish()

    def evict(self, params: EvictParams) -> EvictResult:
        result = super().evict(params)
        self.statistics.publish()
        return result

    def had_better_wait(self, state: RequestState) -> bool:
        limit = self._in_flight.latest if state.wait_limit is None else state.wait_limit
        waits = self._in_flight.worth_waiting_for(state.missing, limit)
        if waits:
            state.wait_limit = limit
        return waits

    def _still_waits(self, state: RequestState) -> bool:
        """Whether a request that has begun to wait goes on: the claims that count only go."""
        return state.wait_limit is not None and self.had_better_wait(state)

    def has_documents(self, req: Req) -> bool:
        return self._state_of(req) is not None

    def should_wait(self, req: Req) -> bool:
        """Whether a request that was matched waits for documents that others still compute."""
        state = self._state_of(req)
        return state is not None and self._still_waits(state)

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
        return state is not None and state.layout is None and not self._still_waits(state)

    def note_admission(self, req: Req) -> None:
        """Count what an admitted request found; it will compute its missing documents."""
        state = admitted_state(req)
        is_first = not req.retracted_stain  # counted once, like ``cached_tokens``
        if is_first:
            self.count_use(req.last_node)
        if state is None:
            return
        state.wait_limit = None
        self._in_flight.claim(state, state.missing)
        if is_first:
            assert state.layout is not None
            self.statistics.admitted(state.prompt, state.layout, state.bundle.nodes)

    def match_prefix(self, params: MatchPrefixParams) -> MatchResult:
        """Match a prompt; for one with documents, also lay out its row.

        SGLang asks twice: to order the waiting queue, and to admit a request. Only
        the second call passes the request's own ``full_untruncated_fill_ids``, and
        only then is that array put into the row's order.
        """
        req = params.req
        if req is None:  # SGLang's own cache_unfinished_req looks up what it has just stored
            return super().match_prefix(params)
        self.drop_unlocked()
        state = self._state_of(req, renew=True)
        if state is None:
            return super().match_prefix(params)
        if self._still_waits(state):
            # It has missed them when it began to wait: no need to look again.
            return compat.match_result(self._no_slots(), NodeBundle(()))
        is_admission = params.key.token_ids is req.full_untruncated_fill_ids
        # An array in the row's order must not be read as the prompt.
        all_ids = req.origin_input_ids + req.output_ids
        start = time.perf_counter()
        found = self.match_prompt(state, all_ids, len(params.key), lay_out=is_admission)
        if is_admission and state.layout is not None:
            permuted = np.frombuffer(all_ids, dtype=np.int64)[state.layout.permutation]
            req.full_untruncated_fill_ids = array("q", permuted.tobytes())
            self._report(req, state.prompt, state.layout)
            self.statistics.matched(start)
        return compat.match_result(*found)

    def cache_unfinished_req(self, req: Req, chunked: bool = False) -> None:
        """Hand what was computed so far to the tree; the request goes on."""
        self.drop_unlocked()
        state = admitted_state(req)
        if state is None:
            super().cache_unfinished_req(req, chunked)
            return
        end = len(req.get_fill_ids())
        old = req.last_node
        settled = self.store_prompt(req, state, end, chunked=chunked)
        self._in_flight.release(state, state.documents_until(end) if chunked else None)
        self.inc_lock_ref(state.bundle)
        self.dec_lock_ref(old)
        for node in settled:
            self.release_private(node)
        req.last_node = state.bundle
        req.cache_protected_len = end
        req.prefix_indices = self._row(req)[:end].to(torch.int64, copy=True)

    def cache_finished_req(
        self, req: Req, is_insert: bool = True, *, kv_len_to_handle: int
    ) -> None:
        """Take over, or free, everything a finished, aborted or retracted request holds."""
        self.drop_unlocked()
        state = admitted_state(req)
        if state is None:
            if is_insert:
                self.refresh(req.last_node)
            super().cache_finished_req(req, is_insert, kv_len_to_handle=kv_len_to_handle)
            return
        self._in_flight.release(state)
        settled: list[TreeNode] = []
        if is_insert and not self.disable_finished_insert:
            settled = self.store_prompt(req, state, kv_len_to_handle)
        else:
            own = self._row(req)[req.cache_protected_len : kv_len_to_handle]
            self.token_to_kv_pool_allocator.free(own)
        if req.last_node is not None:
            self.dec_lock_ref(req.last_node)
        for node in settled:
            self.release_private(node)
        state.layout = None

    def _state_of(self, req: Req, *, renew: bool = False) -> RequestState | None:
        """The request's state, made at first sight; None for a prompt without documents.

        Args:
            renew: make it anew if the weights have changed; for requests that hold nothing.
        """
        state: RequestState | None = getattr(req, STATE, None)
        if state is None or (renew and state.weights_version != self._weights_version):
            shape = PromptShape.from_custom_params(req.sampling_params.custom_params)
        else:
            shape = state.prompt.shape
        if shape is None or len(req.origin_input_ids) != shape.num_tokens:
            return None  # or SGLang has replaced the prompt of a request that it will abort
        if state is None or state.prompt.shape is not shape:
            state = self._new_state(req, shape)
            setattr(req, STATE, state)
        return state

    def _new_state(self, req: Req, shape: PromptShape) -> RequestState:
        namespace = compat.namespace(req)
        if self._weights_version:
            namespace = Renewed(self._weights_version, namespace)
        prompt = DocumentPrompt(
            shape, req.origin_input_ids, namespace, self.sink_token_id, self._contexts
        )
        clip_answer(req, self.token_to_kv_pool_allocator.size, prompt.num_detached)
        return RequestState(prompt, self._weights_version)

    @staticmethod
    def _report(req: Req, prompt: DocumentPrompt, layout: PromptLayout) -> None:
        """Note what was reused, for the answer's ``meta_info``; once, like ``cached_tokens``.

        A hit is a document of which all that can come from the cache did.
        """
        if req.retracted_stain:
            return
        documents = [i for i, is_document in enumerate(layout.is_document) if is_document]
        info: Mapping[str, int] = {
            "documents": len(prompt.shape.document_spans),
            "hits": sum(layout.cached[i] == layout.lengths[i] for i in documents),
            "cached_tokens": sum(layout.cached[i] for i in documents),
        }
        compat.attach_info(req, info)
