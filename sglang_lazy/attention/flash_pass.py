"""Long segments that need no rotation, on FlashAttention-3.

A document that is being computed sees its context and itself at stored positions, and a
prompt without documents sees itself: every position offset is zero, so an ordinary
causal kernel over paged keys serves them, the fastest there is. The other segments of
the pass, such as a question behind its documents, stay on our kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from sglang_lazy import compat
from sglang_lazy.attention.executor import PlannedPass, layer_settings
from sglang_lazy.attention.kernel_pass import KernelPass
from sglang_lazy.attention.plan import AttentionPlan
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.attention.upload import upload

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention

MIN_QUERIES = {90: 128}
"""By compute capability: rows from which a segment is faster on FlashAttention-3 than on our
kernel (docs/performance.md). Others are served by our kernel alone."""

DTYPES = (torch.float16, torch.bfloat16)

MAX_PAGE_TABLE = 1 << 24
"""Entries, 64 MiB. Passes that need more, many documents beside a very long prompt, do without."""


class Sequences(NamedTuple):
    """Segments of a plan as sequences for a kernel over paged keys.

    Runs of segments that are left to others are one sequence without keys each.

    Attributes:
        cu_seqlens_q: int32 ``[n + 1]``.
        seq_lens: int32 ``[n]``, keys.
        key_index: int64 ``[n, max(seq_lens)]``, where ``kv_indices`` holds each key's slot.
        max_queries: rows of the longest sequence with keys.
    """

    cu_seqlens_q: np.ndarray
    seq_lens: np.ndarray
    key_index: np.ndarray
    max_queries: int


def unrotated_segments(plan: AttentionPlan, min_queries: int) -> np.ndarray:
    """Segments of at least ``min_queries`` rows with every offset zero; bool ``[num_segments]``."""
    rotated = np.add.reduceat(plan.position_offsets != 0, plan.span_indptr[:-1])
    return (rotated == 0) & (np.diff(plan.qo_indptr) >= min_queries)


def as_sequences(plan: AttentionPlan, chosen: np.ndarray) -> Sequences | None:
    """The chosen segments; None where their page table would be too large."""
    begins = chosen | np.concatenate(([True], chosen[:-1]))  # the others run on together
    first = np.flatnonzero(begins)
    has_keys = chosen[first]
    lengths = np.add.reduceat(plan.span_len, plan.span_indptr[:-1])
    seq_lens = np.where(has_keys, lengths[first], 0)
    if len(first) * int(seq_lens.max()) > MAX_PAGE_TABLE:
        return None
    spans = np.repeat(chosen, np.diff(plan.span_indptr))
    span_len = plan.span_len[spans].astype(np.int64)
    ends = np.cumsum(span_len)
    total = int(ends[-1])
    source = np.repeat(plan.span_start[spans] - (ends - span_len), span_len) + np.arange(total)
    key_index = np.zeros((len(first), int(seq_lens.max())), np.int64)
    key_index[np.arange(key_index.shape[1]) < seq_lens[:, None]] = source
    return Sequences(
        cu_seqlens_q=np.append(plan.qo_indptr[first], plan.qo_indptr[-1]).astype(np.int32),
        seq_lens=seq_lens.astype(np.int32),
        key_index=key_index,
        max_queries=int(np.diff(plan.qo_indptr)[chosen].max()),
    )


def without_segments(plan: AttentionPlan, chosen: np.ndarray) -> AttentionPlan:
    """The plan with the chosen segments' spans removed: nothing writes their rows."""
    counts = np.where(chosen, 0, np.diff(plan.span_indptr))
    kept = ~np.repeat(chosen, np.diff(plan.span_indptr))
    return dataclasses.replace(
        plan,
        span_indptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        span_start=plan.span_start[kept],
        span_len=plan.span_len[kept],
        position_offsets=plan.position_offsets[kept],
    )


class FlashPass:
    """Sequences on FlashAttention-3, then what is left on another pass.

    Args:
        sequences: see :func:`as_sequences`.
        kv_indices: of the plan.
        flash: ``flash_attn_with_kvcache`` of sglang-kernel.
        rest: writes the rows of sequences without keys; None where there are none.
    """

    def __init__(
        self,
        sequences: Sequences,
        kv_indices: torch.Tensor,
        flash: Callable[..., torch.Tensor],
        rest: PlannedPass | None,
    ) -> None:
        device = kv_indices.device
        self._flash, self._rest = flash, rest
        self._cu_seqlens_q = upload(sequences.cu_seqlens_q, device)
        self._seq_lens = upload(sequences.seq_lens, device)
        self._page_table = kv_indices[upload(sequences.key_index, device)]
        self._max_queries = sequences.max_queries

    def attend(
        self,
        q: torch.Tensor,
        k_buffer: torch.Tensor,
        v_buffer: torch.Tensor,
        layer: RadixAttention,
        rotary: LayerRotary,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        settings = layer_settings(layer)
        out = torch.empty_like(q) if out is None else out
        self._flash(
            q=q,
            k_cache=k_buffer.unsqueeze(1),
            v_cache=v_buffer.unsqueeze(1),
            page_table=self._page_table,
            cache_seqlens=self._seq_lens,
            cu_seqlens_q=self._cu_seqlens_q,
            max_seqlen_q=self._max_queries,
            softmax_scale=settings["sm_scale"],
            softcap=settings["logit_cap"],
            causal=True,
            out=out,
        )
        if self._rest is not None:
            # It overwrites the zeros of sequences without keys.
            self._rest.attend(q, k_buffer, v_buffer, layer, rotary, out)
        return out.flatten(1)


def plan_flash_pass(plan: AttentionPlan, kv_dtype: torch.dtype) -> FlashPass | None:
    """A plan on FlashAttention-3 as far as it goes; None where it is not the kernel to use."""
    device = plan.kv_indices.device
    major, minor = torch.cuda.get_device_capability(device)
    min_queries = MIN_QUERIES.get(10 * major + minor)
    if plan.is_decode or min_queries is None or kv_dtype not in DTYPES:
        return None
    chosen = unrotated_segments(plan, min_queries)
    flash = compat.flash_attention_3() if chosen.any() else None
    sequences = None if flash is None else as_sequences(plan, chosen)
    if flash is None or sequences is None:
        return None
    rest = None if chosen.all() else KernelPass(without_segments(plan, chosen))
    return FlashPass(sequences, plan.kv_indices, flash, rest)
