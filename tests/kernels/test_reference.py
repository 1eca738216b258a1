"""The reference against dense attention in float64 that rotates at true positions.

The reference gets what an engine has: queries rotated at logical positions and keys
rotated at the positions where they are stored. The dense computation starts from
un-rotated ones and never sees an offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch

from sglang_lazy.kernels.reference import decode_attention, extend_attention
from sglang_lazy.kernels.rope import rotate_back

MAX_POSITION = 128


def rotary_table(rotary_dim: int) -> torch.Tensor:
    """float32 ``[MAX_POSITION, rotary_dim]``: cosines, then sines."""
    frequencies = 100.0 ** (-torch.arange(rotary_dim // 2) / (rotary_dim // 2))
    angles = torch.arange(MAX_POSITION)[:, None] * frequencies
    return torch.cat((angles.cos(), angles.sin()), -1).float()


def rotate(x: torch.Tensor, position: int, rotary_dim: int, is_neox_style: bool) -> torch.Tensor:
    """R(position) x in float64, pair by pair."""
    y = x.double().clone()
    half = rotary_dim // 2
    for i in range(half):
        a, b = (i, i + half) if is_neox_style else (2 * i, 2 * i + 1)
        angle = torch.tensor(position * 100.0 ** (-i / half), dtype=torch.float64)
        y[..., a] = x[..., a].double() * angle.cos() - x[..., b].double() * angle.sin()
        y[..., b] = x[..., b].double() * angle.cos() + x[..., a].double() * angle.sin()
    return y


@dataclass(frozen=True)
class Shape:
    """A problem: heads, sizes, and per query segment its rows and spans (length, Δ)."""

    num_qo_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    v_head_dim: int = 16
    rotary_dim: int = 16
    is_neox_style: bool = True
    logit_cap: float = 0.0
    k_scale: float = 1.0
    v_scale: float = 1.0
    segments: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = (
        (3, ((5, 20), (1, -1), (7, 0))),
        (1, ((4, 0),)),
        (2, ((3, 9), (6, 9), (2, 33), (2, 0))),
    )


@dataclass
class Problem:
    """Random inputs of a shape, un-rotated and as an engine would hold them."""

    shape: Shape
    rows_before: int = 1  # rows of no segment, around those of the segments
    rows_after: int = 2
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(1))

    def __post_init__(self) -> None:
        s = self.shape
        counts = [n for n, _ in s.segments]
        spans = [span for _, spans in s.segments for span in spans]
        lengths = [length for length, _ in spans]
        self.qo_indptr = self._indptr(counts, self.rows_before)
        self.span_indptr = self._indptr([len(spans) for _, spans in s.segments])
        self.span_start = self._indptr(lengths)[:-1].long()
        self.span_len = torch.tensor(lengths, dtype=torch.int32)
        self.position_offsets = torch.tensor([delta for _, delta in spans], dtype=torch.int32)
        num_keys, num_slots = sum(lengths), sum(lengths) + 9
        self.kv_indices = torch.randperm(num_slots, generator=self.generator)[:num_keys]
        num_rows = self.rows_before + sum(counts) + self.rows_after
        self.q_raw = self._randn(num_rows, s.num_qo_heads, s.head_dim)
        self.k_raw = self._randn(num_keys, s.num_kv_heads, s.head_dim)
        self.query_positions = torch.randint(40, 90, (num_rows,), generator=self.generator).tolist()
        self.stored_positions = torch.randint(0, 40, (num_keys,), generator=self.generator).tolist()
        self.q = torch.stack(
            [self._rotate(row, p) for row, p in zip(self.q_raw, self.query_positions, strict=True)]
        ).float()
        # Slots that no span names hold NaN: reading one would show.
        self.k_buffer = torch.full((num_slots, s.num_kv_heads, s.head_dim), float("nan"))
        self.v_buffer = torch.full((num_slots, s.num_kv_heads, s.v_head_dim), float("nan"))
        for i, slot in enumerate(self.kv_indices.tolist()):
            self.k_buffer[slot] = self._rotate(self.k_raw[i], self.stored_positions[i]).float()
            self.v_buffer[slot] = self._randn(s.num_kv_heads, s.v_head_dim)
        self.out = torch.full((num_rows, s.num_qo_heads, s.v_head_dim), float("nan"))
        self.lse = torch.full((num_rows, s.num_qo_heads), float("nan"))

    def dense(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Output and lse in float64; rows of no segment are NaN."""
        s = self.shape
        out, lse = self.out.double(), self.lse.double()
        spans = list(zip(self.span_start.tolist(), self.span_len.tolist(),
                         self.position_offsets.tolist(), strict=True))  # fmt: skip
        rows = pairwise(self.qo_indptr.tolist())
        for (first, end), (low, high) in zip(
            rows, pairwise(self.span_indptr.tolist()), strict=True
        ):
            for row in range(first, end):
                scores, values = [], []
                for start, length, delta in spans[low:high]:
                    is_own = (start, length, delta) == spans[high - 1]
                    seen = length - (end - 1 - row) if is_own else length
                    for key in range(start, start + seen):
                        scores.append(self._score(row, key, self.stored_positions[key] + delta))
                        values.append(self.v_buffer[self.kv_indices[key]].double())
                score = torch.stack(scores, -1)  # [num_qo_heads, keys]
                group = s.num_qo_heads // s.num_kv_heads
                value = torch.stack(values, 1).repeat_interleave(group, 0)
                weights = score.softmax(-1)
                out[row] = (weights[..., None] * value).sum(1) * s.v_scale
                lse[row] = score.logsumexp(-1)
        return out, lse

    def extend(self) -> None:
        s = self.shape
        returned = extend_attention(
            self.q, self.k_buffer, self.v_buffer, self.out, self.qo_indptr, self.span_indptr,
            self.span_start, self.span_len, self.position_offsets, self.kv_indices,
            rotary_table(s.rotary_dim), **self.options(),
        )  # fmt: skip
        assert returned is self.out

    def options(self) -> dict:
        s = self.shape
        return {
            "is_neox_style": s.is_neox_style,
            "sm_scale": s.head_dim**-0.5,
            "logit_cap": s.logit_cap,
            "k_scale": s.k_scale,
            "v_scale": s.v_scale,
            "lse": self.lse,
        }

    def _score(self, row: int, key: int, key_position: int) -> torch.Tensor:
        """Scores of one query row and one key by head, from their true positions."""
        s = self.shape
        q = self._rotate(self.q_raw[row], self.query_positions[row])
        k = self._rotate(self.k_raw[key], key_position) * s.k_scale
        group = s.num_qo_heads // s.num_kv_heads
        score = (q * k.repeat_interleave(group, 0)).sum(-1) * s.head_dim**-0.5
        return s.logit_cap * torch.tanh(score / s.logit_cap) if s.logit_cap else score

    def _rotate(self, x: torch.Tensor, position: int) -> torch.Tensor:
        return rotate(x, position, self.shape.rotary_dim, self.shape.is_neox_style)

    def _randn(self, *size: int) -> torch.Tensor:
        return torch.randn(*size, generator=self.generator)

    @staticmethod
    def _indptr(lengths: list[int], first: int = 0) -> torch.Tensor:
        return torch.tensor([0, *lengths]).cumsum(0).add(first).to(torch.int32)


SHAPES = {
    "base": Shape(),
    "one KV head": Shape(num_qo_heads=5, num_kv_heads=1),
    "no grouping": Shape(num_qo_heads=3, num_kv_heads=3),
    "9 over 3 heads, odd sizes": Shape(num_qo_heads=9, num_kv_heads=3, head_dim=22, rotary_dim=22),
    "interleaved": Shape(is_neox_style=False),
    "partial rotary": Shape(rotary_dim=6),
    "partial rotary, interleaved": Shape(rotary_dim=6, is_neox_style=False),
    "other value size": Shape(v_head_dim=7),
    "logit cap": Shape(logit_cap=1.5),
    "scaled KV": Shape(k_scale=0.25, v_scale=3.0),
    "far offsets": Shape(segments=((2, ((3, -60), (2, 87), (2, 0))),)),
    "own span longer than the segment": Shape(segments=((2, ((1, 5), (9, 0))),)),
    "own span with an offset": Shape(segments=((2, ((3, 4),)),)),
    "one token": Shape(segments=((1, ((1, 0),)),)),
    "a segment without rows": Shape(segments=((0, ((3, 0),)), (1, ((2, 8), (2, 0))))),
}


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got.double(), expected, rtol=2e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_extend(shape: Shape) -> None:
    problem = Problem(shape)
    out, lse = problem.dense()
    problem.extend()
    close(problem.out, out)
    close(problem.lse, lse)
    computed = problem.qo_indptr[-1] - problem.qo_indptr[0]
    assert problem.out.isnan().all(-1).all(-1).sum() == len(problem.q) - computed


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_decode(shape: Shape) -> None:
    segments = tuple((1, spans) for _, spans in shape.segments)
    problem = Problem(Shape(**{**vars(shape), "segments": segments}), 0, 0)
    out, lse = problem.dense()
    decode_attention(
        problem.q, problem.k_buffer, problem.v_buffer, problem.out, problem.span_indptr,
        problem.span_start, problem.span_len, problem.position_offsets, problem.kv_indices,
        rotary_table(shape.rotary_dim), **problem.options(),
    )  # fmt: skip
    close(problem.out, out)
    close(problem.lse, lse)


def test_offsets_change_the_result() -> None:
    """Otherwise the tests above would pass without any rotation."""
    problem, same = Problem(SHAPES["base"]), Problem(SHAPES["base"])
    same.position_offsets.zero_()
    problem.extend()
    same.extend()
    assert (problem.out - same.out).nan_to_num().abs().max() > 0.01


def test_spans_may_share_keys() -> None:
    """One document twice in a prompt: its slots are listed once."""
    problem = Problem(Shape(segments=((2, ((4, 30), (4, 11), (3, 0))),)))
    problem.span_start[1] = problem.span_start[0]
    out, _ = problem.dense()
    problem.extend()
    close(problem.out, out)


def test_half_precision_output() -> None:
    problem = Problem(SHAPES["base"])
    out, _ = problem.dense()
    problem.out = problem.out.bfloat16()
    problem.extend()
    torch.testing.assert_close(problem.out.double(), out, rtol=2**-8, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("is_neox_style", [True, False])
@pytest.mark.parametrize("offset", [-127, -3, -1, 0, 1, 50, 127])
def test_rotate_back_undoes_rotation(offset: int, is_neox_style: bool) -> None:
    x = torch.randn(3, 2, 10)
    back = rotate_back(rotate(x, offset, 8, is_neox_style).float(), offset, rotary_table(8),
                       is_neox_style)  # fmt: skip
    torch.testing.assert_close(back, x, rtol=1e-4, atol=1e-4)
    assert torch.equal(back[..., 8:], x[..., 8:])


@pytest.mark.parametrize("offset", [128, -128])
def test_offset_outside_the_table(offset: int) -> None:
    with pytest.raises(ValueError, match=f"position offset {offset} lies outside .* 128 positions"):
        rotate_back(torch.zeros(1, 8), offset, rotary_table(8), True)
