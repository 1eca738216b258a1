"""Random attention problems, and how exact an answer in their dtype can be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from sglang_lazy.kernels import reference
from sglang_lazy.kernels.rope import rotate_back

Spans = tuple[tuple[str, int, int], ...]  # which keys, how many, position offset
MAX_POSITION = 512


@dataclass(frozen=True)
class Shape:
    """Shape of one layer."""

    num_qo_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    rotary_dim: int | None = None
    is_neox_style: bool = True
    logit_cap: float = 0.0
    k_scale: float = 1.0
    v_scale: float = 1.0


@dataclass(frozen=True)
class Problem:
    """Arguments of ``extend_attention``; slots that no span holds are NaN."""

    q: torch.Tensor
    k_buffer: torch.Tensor
    v_buffer: torch.Tensor
    qo_indptr: torch.Tensor
    span_indptr: torch.Tensor
    span_start: torch.Tensor
    span_len: torch.Tensor
    position_offsets: torch.Tensor
    kv_indices: torch.Tensor
    cos_sin_cache: torch.Tensor
    options: dict[str, float | bool] = field(default_factory=dict)

    def metadata(self) -> tuple[torch.Tensor, ...]:
        return (
            self.qo_indptr,
            self.span_indptr,
            self.span_start,
            self.span_len,
            self.position_offsets,
        )

    def empty(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Poisoned ``out`` and ``lse``."""
        out = torch.full_like(self.q, float("nan"))
        return out, torch.full(self.q.shape[:2], float("nan"), device=self.q.device)

    def expected(self) -> tuple[torch.Tensor, torch.Tensor]:
        """``out`` in float32 and ``lse``, from inputs as they are."""
        out = torch.full_like(self.q, float("nan"), dtype=torch.float32)
        lse = torch.full(self.q.shape[:2], float("nan"), device=self.q.device)
        reference.extend_attention(
            self.q,
            self.k_buffer,
            self.v_buffer,
            out,
            *self.metadata(),
            self.kv_indices,
            self.cos_sin_cache,
            lse=lse,
            **self.options,
        )
        return out, lse

    def tolerance(self) -> float:
        """Twice the relative error of plain PyTorch that rounds where kernels must.

        Those round the rotated query, the probabilities and the output to the dtype of
        the queries. A few units of float32 are added for the order of sums.
        """
        wanted, _ = self.expected()
        out = torch.full_like(wanted, float("nan"))
        dtype = self.q.dtype
        group = self.q.shape[1] // self.k_buffer.shape[1]
        qo, spans = self.qo_indptr.tolist(), self.span_indptr.tolist()
        for i, n in enumerate(np.diff(qo)):
            if n == 0:
                continue
            rows, scores, slots = slice(qo[i], qo[i + 1]), [], []
            for s in range(spans[i], spans[i + 1]):
                start, length = int(self.span_start[s]), int(self.span_len[s])
                index = self.kv_indices[start : start + length].long()
                offset = int(self.position_offsets[s])
                neox = bool(self.options["is_neox_style"])
                q = rotate_back(self.q[rows], offset, self.cos_sin_cache, neox).to(dtype).float()
                k = self.k_buffer[index].float().repeat_interleave(group, 1)
                score = torch.einsum("nhd,shd->hns", q, k)
                score *= self.options["sm_scale"] * self.options["k_scale"]
                if cap := self.options["logit_cap"]:
                    score = cap * torch.tanh(score / cap)
                if s == spans[i + 1] - 1:
                    score += torch.full((n, length), float("-inf"), device=q.device).triu(
                        length - int(n) + 1
                    )
                scores.append(score)
                slots.append(index)
            score = torch.cat(scores, -1)
            weight = torch.exp(score - score.amax(-1, keepdim=True))
            v = self.v_buffer[torch.cat(slots)].float().repeat_interleave(group, 1)
            o = torch.einsum("hns,shd->nhd", weight.to(dtype).float(), v)
            out[rows] = o / weight.sum(-1).T[..., None] * self.options["v_scale"]
        return 2 * relative_error(out.to(dtype), wanted) + 1e-6

    def to(self, device: torch.device) -> Problem:
        tensors = {k: v.to(device) for k, v in vars(self).items() if isinstance(v, torch.Tensor)}
        return replace(self, **tensors)


def relative_error(actual: torch.Tensor, wanted: torch.Tensor) -> float:
    """Of the rows that ``wanted`` defines; infinite unless exactly those were written."""
    defined = ~torch.isnan(wanted)
    if not torch.equal(defined, ~torch.isnan(actual)):
        return float("inf")
    difference = actual[defined].double() - wanted[defined].double()
    return float(difference.norm() / wanted[defined].double().norm())


def make_problem(
    segments: list[tuple[int, Spans]],
    shape: Shape,
    dtype: torch.dtype,
    kv_dtype: torch.dtype | None = None,
    *,
    extra_rows: int = 0,
    index_dtype: torch.dtype = torch.int64,
) -> Problem:
    """Query segments (number of rows, spans) over keys that lie scattered in the pool.

    Spans of one name hold the same keys. ``extra_rows`` rows of q belong to no segment.
    """
    sizes: dict[str, int] = {}
    for _, spans in segments:
        for name, length, _ in spans:
            sizes[name] = max(sizes.get(name, 0), length)
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    num_keys = sum(sizes.values())
    num_slots = 2 * num_keys + 3
    kv_indices = torch.randperm(num_slots)[:num_keys]
    flat = [span for _, spans in segments for span in spans]
    num_rows = [n for n, _ in segments]
    rotary_dim = shape.rotary_dim or shape.head_dim
    frequency = 1e4 ** (-torch.arange(0, rotary_dim, 2) / rotary_dim)
    angle = torch.arange(MAX_POSITION)[:, None] * frequency

    def pool() -> torch.Tensor:
        buffer = torch.full((num_slots, shape.num_kv_heads, shape.head_dim), float("nan"))
        buffer[kv_indices] = torch.randn(num_keys, *buffer.shape[1:])
        return buffer.to(kv_dtype or dtype)

    return Problem(
        q=torch.randn(sum(num_rows) + extra_rows, shape.num_qo_heads, shape.head_dim).to(dtype),
        k_buffer=pool(),
        v_buffer=pool(),
        qo_indptr=torch.tensor([0, *np.cumsum(num_rows)], dtype=torch.int32),
        span_indptr=torch.tensor([0, *np.cumsum([len(s) for _, s in segments])], dtype=torch.int32),
        span_start=torch.tensor([starts[name] for name, _, _ in flat]),
        span_len=torch.tensor([n for _, n, _ in flat], dtype=torch.int32),
        position_offsets=torch.tensor([d for _, _, d in flat], dtype=torch.int32),
        kv_indices=kv_indices.to(index_dtype),
        cos_sin_cache=torch.cat((angle.cos(), angle.sin()), 1).float(),
        options={
            "is_neox_style": shape.is_neox_style,
            "sm_scale": shape.head_dim**-0.5,
            "logit_cap": shape.logit_cap,
            "k_scale": shape.k_scale,
            "v_scale": shape.v_scale,
        },
    )
