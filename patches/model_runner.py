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
    graphs = getattr(self.attn_backend, "span_graphs", None)
    plan = None if graphs is None else plan_of(forward_batch)
    if graphs is not None and plan is not None:
        logits_output = graphs.try_run(forward_batch, plan)
        if logits_output is not None:
            return compat.model_output(logits_output)
    return original(self, forward_batch, *args, **kwargs)
