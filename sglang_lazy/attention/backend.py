"""SGLang's attention backends, with key spans for prompts that hold documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

from sglang_lazy import compat
from sglang_lazy.attention.batch import plan_of
from sglang_lazy.attention.plan import AttentionPlan
from sglang_lazy.attention.rotary import LayerRotary, find_rotaries
from sglang_lazy.kernels.reference import extend_attention

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch


class LazyAttnMixin(AttentionBackend):
    """Stands in front of a stock backend's class.

    A pass without documents takes the stock code as it is; one with documents
    follows its plan.
    """

    token_to_kv_pool: Any
    _rotaries: dict[int, LayerRotary]
    _plan: AttentionPlan | None = None

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        super().init_forward_metadata(forward_batch)  # type: ignore[misc]
        self._plan = plan_of(forward_batch)

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
        if self._plan is None:
            stock = super().forward_extend  # type: ignore[misc]
            return stock(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        return self._forward_spans(self._plan, q, k, v, layer, forward_batch, save_kv_cache)

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
        if self._plan is None:
            stock = super().forward_decode  # type: ignore[misc]
            return stock(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        return self._forward_spans(self._plan, q, k, v, layer, forward_batch, save_kv_cache)

    def _forward_spans(
        self,
        plan: AttentionPlan,
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
        q = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = torch.empty_like(q)
        rotary = self._rotaries[layer.layer_id]
        extend_attention(
            q,
            self.token_to_kv_pool.get_key_buffer(layer.layer_id),
            self.token_to_kv_pool.get_value_buffer(layer.layer_id),
            out,
            plan.qo_indptr,
            plan.span_indptr,
            plan.span_start,
            plan.span_len,
            plan.position_offsets,
            plan.kv_indices,
            rotary.cos_sin_cache,
            is_neox_style=rotary.is_neox_style,
            sm_scale=layer.scaling,
            logit_cap=layer.logit_cap,
        )
        return out.flatten(1)


def make_lazy(backend: Any, model: torch.nn.Module) -> Any:
    """Give a stock backend the lazy path, whatever its class.

    Raises:
        ValueError: the model's attention cannot be served; names the layer.
    """
    stock = type(backend)
    backend._rotaries = find_rotaries(model)
    # SGLang asks backends for their class in places, so a subclass and not a wrapper.
    backend.__class__ = type(f"Lazy{stock.__name__}", (LazyAttnMixin, stock), {})
    return backend
