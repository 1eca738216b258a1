"""Entry point of the plugin: everything that SGLang must know of it.

SGLang calls :func:`register` in its main process and in every scheduler process,
before it reads the command line. Nothing here changes what a server does until
``--chunk-cache lazy`` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.config import RADIX_CACHE_BACKEND, config_of
from sglang_lazy.patches import install_hooks
from sglang_lazy.settings import ATTENTION_BACKENDS


def register() -> None:
    """Register the chunk cache, the attention backends, and the hooks."""
    from sglang.srt.layers.attention import attention_registry
    from sglang.srt.mem_cache.registry import register_radix_cache_backend

    install_hooks()
    register_radix_cache_backend(RADIX_CACHE_BACKEND, _create_prefix_cache)
    registry = attention_registry.ATTENTION_BACKENDS
    for name in ATTENTION_BACKENDS:
        # Under the stock name: SGLang branches on backend names in many places.
        registry[name] = _lazy_factory(registry[name])


def _lazy_factory(stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def create(runner: Any) -> Any:
        backend = stock(runner)
        if not config_of(runner.server_args).enabled:
            return backend
        from sglang_lazy.attention.backend import make_lazy
        from sglang_lazy.models import check_implementation

        check_implementation(runner.model_config)
        return make_lazy(backend, runner.model)

    return create


def _create_prefix_cache(ctx: Any) -> Any:
    from sglang_lazy.cache.factory import create_prefix_cache

    return create_prefix_cache(ctx)
