"""The part of a pass that needs no rotation, on a kernel over paged keys."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sglang_lazy import compat
from sglang_lazy.attention.executor import ReferencePass
from sglang_lazy.attention.flash_pass import (
    FlashPass,
    as_sequences,
    plan_flash_pass,
    unrotated_segments,
    without_segments,
)
from sglang_lazy.attention.kernel_pass import KernelPass
from sglang_lazy.attention.plan import AttentionPlan, PlanBuilder
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.cache.layout import PromptLayout

QO_HEADS, KV_HEADS, HEAD_DIM, SLOTS, WIDTH = 4, 2, 64, 700, 320
ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
DTYPE = torch.bfloat16 if ON_GPU else torch.float32
TOLERANCE = 2e-2 if ON_GPU else 1e-5  # bfloat16's rounding of outputs near 1; float32

pytestmark = [pytest.mark.gpu] if ON_GPU else []


def layout(cached: tuple[int, ...], has_sink: bool) -> PromptLayout:
    return PromptLayout(
        lengths=(40, 70, 66, 40, 9),
        is_document=(False, True, True, True, False),
        cached=cached,
        context_length=int(has_sink),
        has_own_context=False,
    )


def plan(has_sink: bool = True) -> AttentionPlan:
    """Missing documents, a half cached one, a plain prompt; short and rotated segments between."""
    rows = torch.randperm(SLOTS)[: 2 * WIDTH].to(DEVICE, torch.int32)
    builder = PlanBuilder()
    shape = layout((40, 30, 0, 0, 0), has_sink)
    detached: dict[int | None, int] = {None: 319} if has_sink else {}
    builder.add_prompt(0, shape.num_tokens, shape.num_tokens - 70, shape, detached)
    builder.add_plain(WIDTH, 300, 80)
    if has_sink:
        builder.add_detached(0, 1, shape, detached, None)
    return builder.build(rows)


def paged_attention(**given: Any) -> None:
    """What FlashAttention-3 computes, as its documentation says, in plain PyTorch."""
    cu_seqlens, out = given["cu_seqlens_q"].tolist(), given["out"]
    for i, n in enumerate(given["cache_seqlens"].tolist()):
        rows = slice(cu_seqlens[i], cu_seqlens[i + 1])
        out[rows] = 0
        if n == 0:
            continue
        slots = given["page_table"][i, :n].long()
        k, v = (given[name][slots, 0].transpose(0, 1) for name in ("k_cache", "v_cache"))
        q = given["q"][rows].transpose(0, 1)
        mask = torch.ones(q.shape[1], n, dtype=torch.bool).tril(n - q.shape[1])
        out[rows] = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=given["softmax_scale"], enable_gqa=True
        ).transpose(0, 1)


@pytest.fixture
def layer() -> Any:
    return SimpleNamespace(scaling=HEAD_DIM**-0.5, logit_cap=0.0, k_scale_float=None)


@pytest.fixture
def rotary() -> LayerRotary:
    inv_freq = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = torch.arange(512)[:, None] * inv_freq
    return LayerRotary(torch.cat((angles.cos(), angles.sin()), -1).to(DEVICE), True)


def tensors(num_queries: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q = torch.randn(num_queries, QO_HEADS, HEAD_DIM, device=DEVICE, dtype=DTYPE)
    kv = torch.randn(2, SLOTS, KV_HEADS, HEAD_DIM, device=DEVICE, dtype=DTYPE)
    return q, kv[0], kv[1]


def test_chosen_are_long_and_unrotated() -> None:
    # Half a document, two documents, question, plain prompt, sink.
    assert unrotated_segments(plan(), 40).tolist() == [True, True, True, False, True, False]
    assert unrotated_segments(plan(), 41).tolist() == [False, True, False, False, True, False]


def test_others_are_sequences_without_keys() -> None:
    chosen = np.array([False, True, False, False, True, False])
    sequences = as_sequences(plan(), chosen)
    assert sequences is not None
    assert sequences.cu_seqlens_q.tolist() == [0, 40, 106, 155, 235, 236]
    assert sequences.seq_lens.tolist() == [0, 67, 0, 300, 0]
    assert sequences.max_queries == 80
    document = sequences.key_index[1, :67].tolist()
    assert document == [319, *range(110, 176)]  # the sink, then 66 tokens after what is cached


def test_a_huge_page_table_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglang_lazy.attention.flash_pass.MAX_PAGE_TABLE", 1000)
    assert as_sequences(plan(), unrotated_segments(plan(), 40)) is None


@pytest.mark.parametrize("has_sink", [True, False])
@pytest.mark.parametrize("min_queries", [1, 40, 66])
def test_equals_reference(
    has_sink: bool, min_queries: int, layer: Any, rotary: LayerRotary
) -> None:
    torch.manual_seed(0)
    whole = plan(has_sink)
    q, k, v = tensors(whole.num_queries)
    expected = ReferencePass(whole).attend(q, k, v, layer, rotary)
    chosen = unrotated_segments(whole, min_queries)
    flash = compat.flash_attention_3() if ON_GPU else paged_attention
    if flash is None:
        pytest.skip("no FlashAttention-3 here")
    rest = KernelPass(without_segments(whole, chosen))
    sequences = as_sequences(whole, chosen)
    assert sequences is not None
    out = torch.full_like(q, float("nan"))
    FlashPass(sequences, whole.kv_indices, flash, rest).attend(q, k, v, layer, rotary, out)
    torch.testing.assert_close(out.flatten(1), expected, atol=TOLERANCE, rtol=0)


def test_rows_of_removed_segments_are_left_alone(layer: Any, rotary: LayerRotary) -> None:
    whole = plan()
    chosen = unrotated_segments(whole, 40)
    q, k, v = tensors(whole.num_queries)
    removed = torch.from_numpy(np.repeat(chosen, np.diff(whole.qo_indptr)))
    for make in (ReferencePass, KernelPass):
        out = torch.full_like(q, float("nan"))
        make(without_segments(whole, chosen)).attend(q, k, v, layer, rotary, out)
        assert out[removed].isnan().all()
        assert not out[~removed].isnan().any()


@pytest.mark.skipif(not ON_GPU, reason="chooses by GPU")
def test_the_kernel_is_chosen_by_dtype_and_length() -> None:
    builder = PlanBuilder()
    builder.add_plain(0, 300, 200)
    long = builder.build(torch.randperm(SLOTS).to(DEVICE, torch.int32))
    is_hopper = torch.cuda.get_device_capability() == (9, 0)
    has_flash = compat.flash_attention_3() is not None
    assert (plan_flash_pass(long, torch.bfloat16) is not None) == (is_hopper and has_flash)
    assert plan_flash_pass(long, torch.float8_e4m3fn) is None
    assert plan_flash_pass(plan(), torch.bfloat16) is None  # its segments are short
