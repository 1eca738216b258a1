"""Building the cache in the scheduler process, after checking what it relies on."""

from __future__ import annotations

from typing import Any

from sglang_lazy.attention.backend import LazyAttnBackend
from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.compat import sglang_version
from sglang_lazy.config import config_of
from sglang_lazy.patches import HookError, verify_hooks


def create_prefix_cache(ctx: Any) -> LazyPrefixCache:
    """SGLang's factory call for ``--radix-cache-backend``.

    Raises:
        HookError: a hook or the attention backend is not in effect in this process.
        ValueError: the model, or the lack of a sink token, cannot be served.
    """
    if not config_of(ctx.server_args).enabled:
        raise ValueError("use --chunk-cache lazy instead of --radix-cache-backend sglang_lazy")
    verify_hooks()
    model_runner = ctx.tp_worker.model_runner
    if not isinstance(model_runner.attn_backend, LazyAttnBackend):
        raise HookError(
            f"--chunk-cache lazy cannot run on SGLang {sglang_version()}: the attention backend is "
            f"{type(model_runner.attn_backend).__name__}, not LazyAttnBackend"
        )
    if ctx.is_hybrid_swa or ctx.is_hybrid_ssm:
        raise ValueError(
            "--chunk-cache lazy does not support models with sliding-window or state-space layers"
        )
    if ctx.model_config.is_multimodal or model_runner.model_config.model_is_mrope:
        raise ValueError("--chunk-cache lazy does not support multimodal models")
    return LazyPrefixCache(ctx.params, sink_token_id=find_sink_token(ctx))


def find_sink_token(ctx: Any) -> int:
    """The token that documents see in mode ``sink``: what the model's prompts begin with.

    Raises:
        ValueError: neither the tokenizer nor the model's configuration names one.
    """
    tokenizer = getattr(ctx.tp_worker, "tokenizer", None)
    if tokenizer is not None:
        if tokenizer.bos_token_id is not None:
            return int(tokenizer.bos_token_id)
        if getattr(tokenizer, "chat_template", None):
            message = [{"role": "user", "content": "a"}]
            text = tokenizer.apply_chat_template(message, tokenize=False)
            return int(tokenizer(text, add_special_tokens=False)["input_ids"][0])
    bos_token_id = getattr(ctx.model_config.hf_config, "bos_token_id", None)
    if bos_token_id is None:
        raise ValueError(
            "--chunk-context sink needs a token that prompts begin with, and the model names no "
            "BOS token and no chat template; use --chunk-context none or preamble"
        )
    return int(bos_token_id)
