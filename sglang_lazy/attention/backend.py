"""SGLang's attention backends, with key spans for prompts that hold documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

from sglang_lazy import compat
from sglang_lazy.attention.batch import plan_of
from sglang_lazy.attention.executor import PlannedPass, plan_pass
from sglang_lazy.attention.rotary import LayerRotary, find_rotaries

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

    from sglang_lazy.attention.graphs import SpanGraphs


class LazyAttnMixin(AttentionBackend):
    """Stands in front of a stock backend's class.

    A pass without documents takes the stock code as it is; one with documents
    follows its plan.
    """

    token_to_kv_pool: Any
    rotaries: dict[int, LayerRotary]
    _pass: PlannedPass | None = None
    span_graphs: SpanGraphs | None = None

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        plan = plan_of(forward_batch)
        self._pass = None if plan is None else plan_pass(plan, self.token_to_kv_pool.dtype)
        if plan is None:
            super().init_forward_metadata(forward_batch)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        if self._pass is None:
            stock = super().forward_extend
            return stock(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        _refuse_extras(kwargs)
        return self._forward_spans(self._pass, q, k, v, layer, forward_batch, save_kv_cache)

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
        if self._pass is None:
            stock = super().forward_decode
            return stock(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        _refuse_extras(kwargs)
        return self._forward_spans(self._pass, q, k, v, layer, forward_batch, save_kv_cache)

    def _forward_spans(
        self,
        planned: PlannedPass,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool,
    ) -> torch.Tensor:
        # Keys first: text may attend to documents of the same pass.
        if save_kv_cache and k is not None and v is not None:
            compat.write_kv(self.token_to_kv_pool, layer, forward_batch.out_cache_loc, k, v)
        return planned.attend(
            q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim),
            self.token_to_kv_pool.get_key_buffer(layer.layer_id),
            self.token_to_kv_pool.get_value_buffer(layer.layer_id),
            layer,
            self.rotaries[layer.layer_id],
        )


def _refuse_extras(arguments: dict[str, Any]) -> None:
    """Models may hand their backend more than queries, keys and values, such as sinks."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise NotImplementedError(
            f"attention with {', '.join(given)} is not supported with documents"
        )


def make_lazy(backend: Any, model: torch.nn.Module) -> Any:
    """Give a stock backend the lazy path, whatever its class.

    Raises:
        ValueError: the model's attention cannot be served; names the layer.
    """
    stock = type(backend)
    backend.rotaries = find_rotaries(model)
    # SGLang asks backends for their class in places, so a subclass and not a wrapper.
    backend.__class__ = type(f"Lazy{stock.__name__}", (LazyAttnMixin, stock), {})
    return backend


def capture_span_graphs(model_runner: Any) -> None:
    """Capture graphs for passes with documents, where SGLang has captured its own.

    Plans are cut for one shape of layer: where layers differ, such passes run eagerly. So do
    they with LoRA: SGLang files adapters by request, and these graphs take rows for requests.
    """
    if not compat.has_decode_graphs(model_runner) or compat.has_adapters(model_runner):
        return
    from sglang_lazy.attention.graphs import SpanGraphs, uniform_attention

    if uniform_attention(model_runner.model) is None:
        return
    backend = model_runner.attn_backend
    backend.span_graphs = SpanGraphs(model_runner, backend.rotaries)


def check_kv_dtype(model_runner: Any) -> None:
    """Refuse stored keys that the kernels cannot multiply.

    Raises:
        ValueError: names the dtype.
    """
    if "cuda" not in str(model_runner.device):
        return
    from sglang_lazy.kernels.execute import FP8_DTYPES

    kv_dtype = model_runner.kv_cache_dtype
    major, minor = torch.cuda.get_device_capability()
    served = (model_runner.dtype, *(FP8_DTYPES if (major, minor) >= (8, 9) else ()))
    if kv_dtype not in served:
        raise ValueError(
            f"--chunk-cache lazy does not support --kv-cache-dtype {kv_dtype} "
            f"with a model in {model_runner.dtype} on this GPU"
        )
