"""The chunk cache of the baseline: whoever reuses a document gets a copy of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams

from block_attention.copy_kernel import copy_rotated
from sglang_lazy.cache.evictable_tree import NodeBundle
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.cache.request_state import RequestState, admitted_state


def documents_state(req: Any) -> RequestState | None:
    """As ``admitted_state``, but a request that has its copies is an ordinary one."""
    state = admitted_state(req)
    return None if state is None or getattr(req, "block_copied", False) else state


class CopyingPrefixCache(LazyPrefixCache):
    """A lazy cache whose requests hold rotated copies of their documents once prefilled.

    Their prompt is still computed over the cached documents in place, which spares the
    baseline a scheduling round for documents that are missing.
    """

    cos_sin_cache: torch.Tensor

    def num_copies(self, req: Any) -> int:
        state = admitted_state(req)
        if state is None:
            return 0
        assert state.layout is not None
        pairs = zip(state.layout.lengths, state.layout.is_document, strict=True)
        return sum(length for length, is_document in pairs if is_document)

    def reserve_copies(self, req: Any) -> None:
        """Slots for a request's copies; the caller has seen that they can be had."""
        needed, allocator = self.num_copies(req), self.token_to_kv_pool_allocator
        missing = needed - allocator.available_size()
        if missing > 0:
            self.evict(EvictParams(num_tokens=missing))
        req.block_copies = allocator.alloc(needed)

    def release_copies(self, req: Any) -> None:
        copies = getattr(req, "block_copies", None)
        if copies is not None:
            self.token_to_kv_pool_allocator.free(copies)
        req.block_copies, req.block_copied = None, False

    def cache_unfinished_req(self, req: Any, chunked: bool = False, **kwargs: Any) -> None:
        super().cache_unfinished_req(req, chunked=chunked, **kwargs)
        if chunked or getattr(req, "block_copies", None) is None:
            return
        if not getattr(req, "block_copied", False):
            self._copy_documents(req)

    def cache_finished_req(self, req: Any, *args: Any, **kwargs: Any) -> None:
        super().cache_finished_req(req, *args, **kwargs)
        self.release_copies(req)

    def _copy_documents(self, req: Any) -> None:
        state = admitted_state(req)
        assert state is not None and state.layout is not None
        layout, row = state.layout, self._row(req)
        pieces = [p for p in layout.pieces if layout.is_document[p.segment]]
        places = np.concatenate([np.arange(p.start, p.end) for p in pieces])
        moved = np.repeat(
            [layout.position_offset(p.segment) for p in pieces], [p.length for p in pieces]
        )
        index = torch.from_numpy(places).to(row.device, non_blocking=True)
        offsets = torch.from_numpy(moved).to(row.device, non_blocking=True)
        copy_rotated(
            self.token_to_kv_pool_allocator.get_kvcache(),
            self.cos_sin_cache,
            row[index].to(torch.int64),
            req.block_copies,
            offsets,
        )
        row[index] = req.block_copies.to(row.dtype)
        kept = [
            None if layout.is_document[i] else node
            for i, node in enumerate(state.bundle.nodes[: len(layout.lengths)])
        ]
        bundle = NodeBundle(kept)
        self.inc_lock_ref(bundle)
        self.dec_lock_ref(req.last_node)
        state.bundle = req.last_node = bundle
        req.prefix_indices = row[: req.cache_protected_len].to(torch.int64, copy=True)
        req.block_copied = True
