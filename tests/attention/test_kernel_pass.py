"""What serves plans on a GPU, in Triton's interpreter: eager passes, and the graphs' backend.

SGLang's graph runner needs a GPU; here its calls are made by hand, with stand-ins for
the layer and the pools that hold only what the backend reads.
"""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_lazy.attention import graphs
from sglang_lazy.attention.executor import ReferencePass
from sglang_lazy.attention.kernel_pass import KernelPass
from sglang_lazy.attention.plan import AttentionPlan, PlanBuilder, decode_plan, decode_spans
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.cache.layout import PromptLayout

QO_HEADS, KV_HEADS, HEAD_DIM, SLOTS, WIDTH = 4, 2, 32, 400, 160
LAYOUT = PromptLayout(
    lengths=(5, 70, 66, 9),
    is_document=(False, True, True, False),
    cached=(5, 70, 66, 0),
    context_length=0,
    has_own_context=False,
)
LINKED = PromptLayout(
    lengths=(9, 66, 66, 9),
    is_document=(False, True, True, False),
    cached=(9, 66, 6, 0),
    context_length=2,
    has_own_context=True,
    heads=(0, 4, 4, 0),
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = 1e-5  # float32 against float32

pytestmark = [pytest.mark.gpu] if DEVICE == "cuda" else []


@pytest.fixture
def layer() -> Any:
    return SimpleNamespace(
        layer_id=0,
        tp_q_head_num=QO_HEADS,
        tp_k_head_num=KV_HEADS,
        qk_head_dim=HEAD_DIM,
        scaling=HEAD_DIM**-0.5,
        logit_cap=0.0,
        k_scale=None,
        k_scale_float=None,
        v_scale_float=None,
    )


@pytest.fixture
def rotary() -> LayerRotary:
    inv_freq = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = torch.arange(256)[:, None] * inv_freq
    return LayerRotary(torch.cat((angles.cos(), angles.sin()), -1).to(DEVICE), True)


@pytest.fixture
def kv() -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.randn(SLOTS, KV_HEADS, HEAD_DIM, device=DEVICE),
        torch.randn(SLOTS, KV_HEADS, HEAD_DIM, device=DEVICE),
    )


def plan(kind: str) -> AttentionPlan:
    """A prompt beside a plain one; one with link tokens; requests that share documents; one."""
    rows = torch.randperm(SLOTS)[: 2 * WIDTH].to(DEVICE, torch.int32)
    shared = sum(LAYOUT.lengths[:3])
    rows[WIDTH : WIDTH + shared] = rows[:shared]
    if kind == "prompt":
        builder = PlanBuilder()
        builder.add_prompt(0, LAYOUT.num_tokens, 9, LAYOUT, {})
        builder.add_plain(WIDTH, 20, 4)
        return builder.build(rows)
    if kind == "linked":  # a tail that is partly cached, and two tokens of its head to compute
        builder, head = PlanBuilder(), {2: WIDTH + 50}
        builder.add_prompt(0, LINKED.num_tokens - 3, 66, LINKED, head)
        builder.add_detached(0, 2, LINKED, head, 2)
        return builder.build(rows)
    spans = decode_spans(LAYOUT, [1, 2, 3, 4], num_stored=LAYOUT.num_tokens)
    if kind == "shared":
        return decode_plan([spans, spans], [150, 151], WIDTH, rows)
    return decode_plan([spans], [150], WIDTH, rows)


def graph_backend(
    monkeypatch: pytest.MonkeyPatch, kind: Any, layer: Any, rotary: LayerRotary, kv: Any
) -> graphs.GraphAttnBackend:
    monkeypatch.setattr(graphs, "uniform_attention", lambda model: layer)
    runner: Any = SimpleNamespace(
        model=None,
        device=DEVICE,
        dtype=torch.float32,
        token_to_kv_pool=SimpleNamespace(
            get_key_buffer=lambda layer_id: kv[0], get_value_buffer=lambda layer_id: kv[1]
        ),
        req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(4, WIDTH)),
    )
    backend = graphs.GraphAttnBackend(runner, {0: rotary}, kind)
    backend.init_cuda_graph_state(16, 16)
    return backend


@pytest.mark.parametrize("kind", ["prompt", "linked", "shared", "private"])
def test_equals_reference(
    monkeypatch: pytest.MonkeyPatch, kind: str, layer: Any, rotary: LayerRotary, kv: Any
) -> None:
    wanted = plan(kind)
    n, size = wanted.num_queries, 80 if kind == "linked" else 16
    q = torch.randn(size, QO_HEADS, HEAD_DIM, device=DEVICE)
    expected = ReferencePass(wanted).attend(q[:n], *kv, layer, rotary)
    eager = KernelPass(wanted).attend(q[:n], *kv, layer, rotary)
    torch.testing.assert_close(eager, expected, atol=TOLERANCE, rtol=0)

    backend = graph_backend(monkeypatch, "prompt" if kind == "linked" else kind, layer, rotary, kv)
    forward_batch: Any = SimpleNamespace(batch_size=size)
    backend.init_forward_metadata_out_graph(forward_batch, in_capture=True)
    assert backend.fits(wanted, size)
    backend.init_forward_metadata_out_graph(forward_batch)
    out = backend.forward_decode(q, None, None, layer, forward_batch)  # type: ignore[arg-type]
    torch.testing.assert_close(out[:n], expected, atol=TOLERANCE, rtol=0)
    assert not out[n:].any(), "rows that pad a batch must not hold what memory held"


def test_a_plan_beyond_the_graph_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, layer: Any, rotary: LayerRotary, kv: Any
) -> None:
    """A hundred documents of one request: more spans than a graph of one row has room for."""
    layout = PromptLayout((1,) * 101, (True,) * 100 + (False,), (1,) * 100 + (0,), 0, False)
    spans = decode_spans(layout, list(range(1, 102)), num_stored=layout.num_tokens)
    rows = torch.arange(WIDTH, dtype=torch.int32, device=DEVICE)
    wanted = decode_plan([spans], [101], WIDTH, rows)
    backend = graph_backend(monkeypatch, "private", layer, rotary, kv)
    assert not backend.fits(wanted, 1)
    assert backend.fits(wanted, 2)
