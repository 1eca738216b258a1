"""Passes with documents replay their own CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat
from sglang_lazy.attention.batch import plan_of
from sglang_lazy.patches.registry import around


@around("sglang.srt.model_executor.model_runner.ModelRunner._forward_raw")
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
