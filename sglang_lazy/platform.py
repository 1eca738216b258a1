"""SGLang on a host without an accelerator.

PyPI's SGLang starts on CUDA hosts only: its CPU engine needs ``sgl_kernel`` built
from source. This platform serves with PyTorch operators alone, so that the package
can be tried and tested on any x86-64 or arm64 Linux machine. It is a reference, not
a fast engine.

SGLang calls `activate` through the entry point group ``sglang.srt.platforms`` while
``sglang`` itself is still being imported, hence the imports inside the methods.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.device_mixin import PlatformEnum

if TYPE_CHECKING:
    from sglang.srt.server_args import ServerArgs

logger = logging.getLogger(__name__)

ATTENTION_BACKEND = "torch_native"
MAX_TOTAL_TOKENS = 32768


def activate() -> str | None:
    """Name the platform class, or return None to leave the choice to SGLang.

    Active where PyTorch sees no accelerator, unless SGLang's own CPU engine was
    asked for. Does not initialise a device.
    """
    if os.environ.get("SGLANG_USE_CPU_ENGINE", "0") == "1" or torch.accelerator.is_available():
        return None
    # For the worker processes: OpenMP threads that spin while they wait slow
    # decoding down by an order of magnitude as soon as a core has other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return f"{__name__}:{CpuPlatform.__name__}"


class CpuPlatform(CpuSRTPlatform):
    """A CPU as an out-of-tree device; differs from SGLang's by needing no ``sgl_kernel``."""

    _enum = PlatformEnum.OOT

    def get_device(self, device_id: int | None = None) -> str:
        return "cpu"

    def apply_server_args_defaults(self, server_args: ServerArgs) -> None:
        # SGLang has put intel_amx here for every x86-64 host by now. Its kernels
        # are not in the PyPI wheel; where they are absent it falls back to
        # torch_native by itself, but on an AMX host with sgl_kernel it would not.
        if server_args.attention_backend in (None, "intel_amx"):
            server_args.attention_backend = ATTENTION_BACKEND
        if server_args.lora_backend == "csgmv":  # the default: Triton kernels
            server_args.lora_backend = "torch_native"
        # "auto" means half precision, which most CPUs emulate.
        if server_args.dtype == "auto":
            server_args.dtype = "float32"
        # Otherwise the KV pool takes most of the host's memory, and writes to all
        # of it at start-up.
        if server_args.max_total_tokens is None and server_args.mem_fraction_static is None:
            server_args.max_total_tokens = MAX_TOTAL_TOKENS
            logger.info("KV pool limited to %d tokens (--max-total-tokens)", MAX_TOTAL_TOKENS)

    def get_default_attention_backend(self) -> str:
        return ATTENTION_BACKEND

    def get_mha_kv_pool_cls(self) -> type:
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        return MHATokenToKVPool

    def get_mla_kv_pool_cls(self) -> type:
        raise NotImplementedError(
            "multi-head latent attention (DeepSeek models) is not supported on CPU; "
            "serve this model on a GPU"
        )

    def get_paged_allocator_cls(self) -> type:
        from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator

        class TokenAllocator(TokenToKVPoolAllocator):
            """Accepts the page size that SGLang hands to out-of-tree allocators."""

            def __init__(self, size: int, *, page_size: int, **kwargs: Any) -> None:
                if page_size != 1:
                    raise ValueError(
                        f"--page-size {page_size} is not supported on CPU: leave it at 1"
                    )
                super().__init__(size, **kwargs)

        return TokenAllocator

    def get_compile_backend(self, mode: str | None = None) -> str:
        # "inductor" would need a C++ compiler on the host.
        return "eager"

    def init_backend(self) -> None:
        # On arm64, workers pin their threads with operators that only the CPU
        # build of sgl_kernel has.
        from sglang.srt.distributed import bootstrap

        if not hasattr(torch.ops.sgl_kernel, "init_cpu_threads_env"):
            bootstrap._is_cpu_arm64 = False

    def get_torch_profiler_activity_str(self) -> str:
        return "CPU"

    def get_torch_profiler_activity(self) -> torch.profiler.ProfilerActivity:
        return torch.profiler.ProfilerActivity.CPU
