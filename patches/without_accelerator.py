"""What SGLang lacks on a host without an accelerator (``sglang_lazy.platform``).

It pins the memory of LoRA adapters and of grammars' token masks, which needs one, and
applies those masks on accelerators only: either ends the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_lazy import compat
from sglang_lazy.patches.registry import around

_LORA = "sglang.srt.lora.lora_manager.LoRAManager"
_GRAMMAR = "sglang.srt.constrained.xgrammar_backend.XGrammarGrammar"


def pageable(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with compat.PageableMemory():
        return original(*args, **kwargs)


def apply_vocab_mask(original: Callable[..., Any], self: Any, logits: Any, vocab_mask: Any) -> None:
    import xgrammar

    xgrammar.apply_token_bitmask_inplace(logits, vocab_mask)


if not torch.accelerator.is_available():
    for _method in (
        "__init__",
        "load_lora_adapter",
        "load_lora_adapter_from_tensors",
        "prepare_lora_batch",
    ):
        around(f"{_LORA}.{_method}")(pageable)
    around(f"{_GRAMMAR}.allocate_vocab_mask")(pageable)
    around(f"{_GRAMMAR}.apply_vocab_mask")(apply_vocab_mask)
