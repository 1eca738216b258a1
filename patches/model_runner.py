"""Passes with documents replay their own CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.attention.batch import plan_of
from sglang_lazy.patches.registry import around

_TARGET = "sglang.srt.model_executor.model_runner.ModelRunner"


@around(f"{_TARGET}._forward_raw")
def forward_raw(
    original: Callable[..., Any], self: Any, forward_batch: Any, *args: Any, **kwargs: Any
) -> Any:
    plan = plan_of(forward_batch)
    if plan is None:
        return original(self, forward_batch, *args, **kwargs)
    graphs = getattr(self.attn_backend, "span_graphs", None)
    logits_output = None if graphs is None else graphs.try_run(forward_batch, plan)
    if logits_output is not None:
        return compat.model_output(logits_output)
    # SGLang's own decode graphs have the stock attention inside: run eagerly.
    with compat.without_decode_graphs(self), compat.without_lora_graphs(self):
        return original(self, forward_batch, *args, **kwargs)


@around(f"{_TARGET}.init_decode_cuda_graph")
def init_decode_cuda_graph(original: Callable[..., Any], self: Any) -> Any:
    """SGLang captures its graphs anew when a weight update asks for it; so do we."""
    from sglang_lazy.attention.backend import capture_span_graphs

    result = original(self)
    if getattr(self.attn_backend, "span_graphs", None) is not None:
        self.attn_backend.span_graphs = None  # frees the old ones first
        capture_span_graphs(self)
    return result
