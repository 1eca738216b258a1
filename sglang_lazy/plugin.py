"""Entry point of the plugin: everything that SGLang must know of it.

SGLang calls :func:`register` in its main process and in every scheduler process,
before it reads the command line. Nothing here changes what a server does until
``--chunk-cache lazy`` is given.
"""

from __future__ import annotations

from typing import Any

from sglang_lazy.config import RADIX_CACHE_BACKEND, config_of
from sglang_lazy.patches import install_hooks
from sglang_lazy.settings import ATTENTION_BACKEND


def register() -> None:
    """Register the chunk cache, the attention backend, and the hooks."""
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.mem_cache.registry import register_radix_cache_backend

    install_hooks()
    register_radix_cache_backend(RADIX_CACHE_BACKEND, _create_prefix_cache)
    stock = ATTENTION_BACKENDS[ATTENTION_BACKEND]

    def create_attention_backend(runner: Any) -> Any:
        if not config_of(runner.server_args).enabled:
            return stock(runner)
        from sglang_lazy.attention.backend import LazyAttnBackend

        return LazyAttnBackend(runner)

    # Under the stock name: SGLang branches on backend names in many places.
    ATTENTION_BACKENDS[ATTENTION_BACKEND] = create_attention_backend


def _create_prefix_cache(ctx: Any) -> Any:
    from sglang_lazy.cache.factory import create_prefix_cache

    return create_prefix_cache(ctx)
