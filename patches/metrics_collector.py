"""The labels of SGLang's scheduler metrics, for ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.observe.metrics import remember_collector
from sglang_lazy.patches.registry import around


@around("sglang.srt.observability.metrics_collector.SchedulerMetricsCollector.init_new")
def init_new(original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
    context = original(cls, *args, **kwargs)
    # None where SGLang exports none from this process, as from tensor-parallel ranks but 0.
    remember_collector(context.collector if context.current_scheduler_metrics_enabled else None)
    return context
