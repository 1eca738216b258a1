"""LoRA without an accelerator: SGLang pins the memory of adapters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from sglang_lazy import compat
from sglang_lazy.patches.registry import around

_TARGET = "sglang.srt.lora.lora_manager.LoRAManager"


def _pageable(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    on_cpu = not torch.accelerator.is_available()
    with compat.PageableMemory() if on_cpu else nullcontext():
        return original(self, *args, **kwargs)


for _method in (
    "__init__",
    "load_lora_adapter",
    "load_lora_adapter_from_tensors",
    "prepare_lora_batch",
):
    around(f"{_TARGET}.{_method}")(_pageable)
