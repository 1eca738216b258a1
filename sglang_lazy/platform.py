"""SGLang on a host without an accelerator.

PyPI's SGLang starts on CUDA hosts only: its CPU engine needs ``sgl_kernel`` built
from source. This platform serves with PyTorch operators alone, so that the package
can be tried and tested on any x86-64 or arm64 Linux machine. It is a reference, not
a fast engine.

SGLang calls `activate` through the entry point group ``sglang.srt.platforms`` while
``sglang`` itself is still being imported, hence the imports inside the methods.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.device_mixin import PlatformEnum

if TYPE_CHECKING:
    from sglang.srt.server_args import ServerArgs

ATTENTION_BACKEND = "torch_native"


def activate() -> str | None:
    """Name the platform class, or return None to leave the choice to SGLang.

    Active where PyTorch sees no accelerator, unless SGLang's own CPU engine was
    asked for. Does not initialise a device.
    """
    if os.environ.get("SGLANG_USE_CPU_ENGINE", "0") == "1" or torch.accelerator.is_available():
        return None
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
        # Host memory is shared with everything else that runs on the machine.
        if server_args.mem_fraction_static is None:
            server_args.mem_fraction_static = 0.5

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
