"""CUDA graphs for passes that hold documents.

SGLang's decode graphs have the stock attention inside. A second set is captured with
attention that reads its plan from buffers of fixed capacity, so one graph serves every
plan of its size. Nothing on the way to a replay waits for the device.

The same graphs serve short prompts, such as a question behind cached documents: to
everything but attention, a pass over n tokens of a prompt is a decoding step of n
requests, and the plan says who attends to what. The stock prefill path launches each
layer's kernels one by one, which is most of its time for so few tokens.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

from sglang_lazy import compat
from sglang_lazy.attention.kernel_pass import run_layer
from sglang_lazy.attention.plan import AttentionPlan
from sglang_lazy.attention.rotary import LayerRotary
from sglang_lazy.kernels.config import LaunchConfig, device_architecture
from sglang_lazy.kernels.decode import decode_config
from sglang_lazy.kernels.extend import extend_config
from sglang_lazy.kernels.plan_buffers import Capacity, PlanBuffers
from sglang_lazy.kernels.planner import HostPlan, plan_decode, plan_extend

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch
    from sglang.srt.model_executor.model_runner import ModelRunner

SPANS_PER_ROW = 64
"""Key spans, and partial results, per row that a graph has room for; larger plans run eagerly."""


PassKind = Literal["shared", "private", "prompt"]
"""Decoding where requests hold the same documents; where none do; tokens of prompts."""


class GraphAttnBackend(AttentionBackend):
    """Attention of captured passes.

    Args:
        model_runner: SGLang's, with its model and pools in place.
        rotaries: rotary tables by layer.
        kind: what its plans are like; tiles and launches are cut for it.
        kv_indices: buffer of another such backend to share; passes run one at a time.
    """

    def __init__(
        self,
        model_runner: ModelRunner,
        rotaries: dict[int, LayerRotary],
        kind: PassKind,
        kv_indices: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self._kind = kind
        self._rotaries = rotaries
        self._pool = model_runner.token_to_kv_pool
        self._row_width = model_runner.req_to_token_pool.req_to_token.shape[1] + 1
        self._device = torch.device(model_runner.device)
        layer = uniform_attention(model_runner.model)
        assert layer is not None, "the caller asked before"
        self.num_qo_heads, self.num_kv_heads = layer.tp_q_head_num, layer.tp_k_head_num
        self._head_dim = layer.qk_head_dim
        self._dtypes: dict[str, torch.dtype] = {
            "q_dtype": model_runner.dtype,
            "kv_dtype": self._pool.get_key_buffer(layer.layer_id).dtype,
        }
        self._shared_kv_indices = kv_indices
        self._buffers: dict[int, PlanBuffers] = {}
        self._bucket: PlanBuffers | None = None
        self._current: tuple[AttentionPlan, HostPlan] | None = None

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        # Prompts' tokens of one request share its row; decoding has a row for each.
        num_entries = max_bs * self._row_width
        shared = self._shared_kv_indices
        if shared is None or len(shared) < num_entries:
            shared = torch.zeros(num_entries, dtype=torch.int32, device=self._device)
        self.kv_indices = shared

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatch, in_capture: bool = False
    ) -> None:
        """Load the current plan; a graph is captured with an empty one."""
        size = forward_batch.batch_size
        if in_capture:
            self._bucket = self._buffers_of(size)
            return
        assert self._current is not None
        plan, host_plan = self._current
        self.kv_indices[: len(plan.kv_indices)].copy_(plan.kv_indices)
        self._buffers_of(size).load(host_plan)

    def fits(self, plan: AttentionPlan, size: int) -> bool:
        """Whether a graph of ``size`` rows can take the plan; if so, it is the current one."""
        if len(plan.kv_indices) > len(self.kv_indices):
            return False
        host_plan = self._cut(plan, size)
        self._current = (plan, host_plan)
        limits, needs = vars(self._buffers_of(size).capacity), vars(Capacity.of(host_plan))
        return all(needs[name] <= limit for name, limit in limits.items())

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        if save_kv_cache and k is not None:
            compat.write_kv(self._pool, layer, forward_batch.out_cache_loc, k, v)
        q = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        # Rows that pad a prompt are in no plan; decoding's plans set theirs to zero.
        out = torch.zeros_like(q) if self._kind == "prompt" else torch.empty_like(q)
        assert self._bucket is not None
        run_layer(
            self._bucket,
            q,
            self._pool.get_key_buffer(layer.layer_id),
            self._pool.get_value_buffer(layer.layer_id),
            out,
            self.kv_indices,
            layer=layer,
            rotary=self._rotaries[layer.layer_id],
        )
        return out.flatten(1)

    def _config(self, size: int) -> LaunchConfig:
        shape: dict[str, Any] = {
            "num_qo_heads": self.num_qo_heads,
            "num_kv_heads": self.num_kv_heads,
            "head_dim": self._head_dim,
            "device": self._device,
            **self._dtypes,
        }
        if self._kind == "prompt":
            return extend_config(max_queries=size, **shape)
        return decode_config(num_requests=size, may_share=self._kind == "shared", **shape)

    def _cut(self, plan: AttentionPlan, size: int) -> HostPlan:
        ragged = (plan.span_indptr, plan.span_start, plan.span_len, plan.position_offsets)
        shape: dict[str, Any] = {
            "config": self._buffers_of(size).config,
            "group": self.num_qo_heads // self.num_kv_heads,
            "num_kv_heads": self.num_kv_heads,
            "num_sms": device_architecture(self._device)[1],
        }
        if self._kind == "prompt":
            return plan_extend(plan.qo_indptr, *ragged, **shape)
        padding = size - plan.num_queries
        return plan_decode(*ragged, plan.span_ids, **shape, num_padded_rows=padding)

    def _buffers_of(self, size: int) -> PlanBuffers:
        buffers = self._buffers.get(size)
        if buffers is None:
            config = self._config(size)
            programs = device_architecture(self._device)[1] * config.programs_per_sm
            # As many splits as keep the device busy, and what is cut by span beyond that.
            units = 8 * programs + size * SPANS_PER_ROW
            rows = size * SPANS_PER_ROW
            capacity = Capacity(
                units=units,
                item_rows=rows,
                spans=rows,
                merge_rows=size,
                partials=max(rows, 4 * programs),
            )
            buffers = self._buffers[size] = PlanBuffers(config, capacity, self._device)
        return buffers


def uniform_attention(model: torch.nn.Module) -> Any:
    """An attention layer that stands for all, or None where their shapes differ."""
    from sglang.srt.layers.radix_attention import RadixAttention

    layers = [m for m in model.modules() if isinstance(m, RadixAttention)]
    shapes = {(m.tp_q_head_num, m.tp_k_head_num, m.qk_head_dim) for m in layers}
    return layers[0] if len(shapes) == 1 else None


class SpanGraphs:
    """The graphs of passes with documents, and the choice of when to replay one."""

    def __init__(self, model_runner: ModelRunner, rotaries: dict[int, LayerRotary]) -> None:
        self._backends: dict[PassKind, GraphAttnBackend] = {}
        self._runners: dict[PassKind, Any] = {}
        kv_indices: torch.Tensor | None = None
        for kind in get_args(PassKind):
            backend = GraphAttnBackend(model_runner, rotaries, kind, kv_indices)
            self._backends[kind] = backend
            self._runners[kind] = compat.capture_decode_graphs(model_runner, backend)
            kv_indices = backend.kv_indices
        max_tokens = self._runners["prompt"].max_bs
        self._ones = torch.ones(max_tokens, dtype=torch.int64, device=model_runner.device)
        self._zeros = torch.zeros_like(self._ones)

    def try_run(self, forward_batch: ForwardBatch, plan: AttentionPlan) -> Any:
        """Replay a graph for the pass; None where none fits it."""
        kind: PassKind = "prompt"
        if plan.is_decode:
            kind = "shared" if plan.shares_spans else "private"
        runner, backend = self._runners[kind], self._backends[kind]
        num_tokens = len(forward_batch.input_ids)
        size = next((s for s in runner.capture_bs if s >= num_tokens), None)
        if size is None or not compat.needs_last_logits_only(forward_batch):
            return None
        view = forward_batch if plan.is_decode else self._as_decode(forward_batch)
        if not runner.can_run_graph(view) or not backend.fits(plan, size):
            return None
        output = runner.execute(view)
        if plan.is_decode:
            return output
        lengths = forward_batch.extend_seq_lens_cpu
        if len(lengths) == 1:
            last = output.next_token_logits[lengths[0] - 1 : lengths[0]]
        else:
            last = output.next_token_logits[torch.cumsum(forward_batch.extend_seq_lens, 0) - 1]
        return dataclasses.replace(output, next_token_logits=last)

    def _as_decode(self, forward_batch: ForwardBatch) -> ForwardBatch:
        """The prompt tokens of a pass as rows of a decoding step.

        Lengths and rows are stand-ins: what attends to what is in the plan.
        """
        num_tokens = len(forward_batch.input_ids)
        ones = self._ones[:num_tokens]
        return dataclasses.replace(
            forward_batch,
            forward_mode=compat.decode_mode(),
            batch_size=num_tokens,
            seq_lens=ones,
            seq_lens_cpu=torch.ones(num_tokens, dtype=torch.int64),
            seq_lens_sum=num_tokens,
            orig_seq_lens=ones,
            req_pool_indices=self._zeros[:num_tokens],
        )
