"""Building the cache in the scheduler process, after checking what it relies on."""

from __future__ import annotations

from typing import Any

from sglang_lazy.attention.backend import LazyAttnMixin, capture_span_graphs, check_kv_dtype
from sglang_lazy.attention.probe import verify_rotaries
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.compat import break_even_keys, sglang_version
from sglang_lazy.config import config_of
from sglang_lazy.observe.metrics import create_metrics
from sglang_lazy.patches import HookError, verify_hooks
from sglang_lazy.sink import NO_SINK_TOKEN, find_sink_token


def create_prefix_cache(ctx: Any) -> LazyPrefixCache:
    """SGLang's factory call for ``--radix-cache-backend``.

    Raises:
        HookError: a hook or the attention backend is not in effect in this process.
        ValueError: the model, or the lack of a sink token, cannot be served.
    """
    config = config_of(ctx.server_args)
    if not config.enabled:
        raise ValueError("use --chunk-cache lazy instead of --radix-cache-backend sglang_lazy")
    verify_hooks()
    model_runner = ctx.tp_worker.model_runner
    if not isinstance(model_runner.attn_backend, LazyAttnMixin):
        raise HookError(
            f"--chunk-cache lazy cannot run on SGLang {sglang_version()}: the attention backend is "
            f"{type(model_runner.attn_backend).__name__}, which has no lazy path"
        )
    if ctx.is_hybrid_swa or ctx.is_hybrid_ssm:
        raise ValueError(
            "--chunk-cache lazy does not support models with sliding-window or state-space layers"
        )
    if ctx.model_config.is_multimodal or model_runner.model_config.model_is_mrope:
        raise ValueError("--chunk-cache lazy does not support multimodal models")
    sink_token_id = find_sink_token(
        getattr(ctx.tp_worker, "tokenizer", None), ctx.model_config.hf_config
    )
    if sink_token_id is None and config.chunk_context == "sink":
        raise ValueError(NO_SINK_TOKEN)
    check_kv_dtype(model_runner)
    verify_rotaries(model_runner, model_runner.attn_backend.rotaries)
    capture_span_graphs(model_runner)
    return LazyPrefixCache(
        ctx.params,
        sink_token_id,
        metrics=create_metrics(),
        break_even_keys=break_even_keys(ctx.model_config),
    )
