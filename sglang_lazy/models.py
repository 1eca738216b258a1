"""Models that cannot be served, told by their configuration before any process starts.

What a configuration does not tell is found in the loaded model, by its modules
(``attention/rotary.py``) and by what they do (``attention/probe.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy import compat

FULL_ATTENTION = "full_attention"

_ALIBI_ARCHITECTURES = ("BloomForCausalLM", "MPTForCausalLM", "MptForCausalLM")
"""Those whose configuration has no switch for it on top."""


def check_model(model_config: Any) -> None:
    """Refuse a model whose attention is not rotary, full and over keys per head.

    Args:
        model_config: SGLang's ``ModelConfig``.

    Raises:
        ValueError: names the architecture and what about it is not supported.
    """
    for find_reason in _CHECKS:
        reason = find_reason(model_config)
        if reason is not None:
            raise _unsupported(model_config, reason)


def _purpose(model_config: Any) -> str | None:
    if model_config.is_encoder_decoder:
        return "it is an encoder-decoder model, whose decoder attends to an encoder's output"
    if not model_config.is_generation:
        return "it does not generate text"
    if model_config.is_multimodal:
        return "it is multimodal"
    return None


def _state(model_config: Any) -> str | None:
    if compat.has_state_space_layers(model_config):
        return "it has state-space or linear-attention layers, whose state depends on all tokens"
    return None


def _latent_attention(model_config: Any) -> str | None:
    if compat.has_latent_attention(model_config):
        return "it uses multi-head latent attention"
    return None


def _windows(model_config: Any) -> str | None:
    config, context_len = model_config.hf_text_config, model_config.context_len
    kinds = {
        FULL_ATTENTION if kind == "attention" else kind
        for name in ("layer_types", "layers_block_type")
        for kind in getattr(config, name, None) or ()
    }
    chunk = getattr(config, "attention_chunk_size", None)
    if chunk and chunk < context_len:
        return f"it attends within chunks of {chunk} tokens"
    if getattr(config, "dual_chunk_attention_config", None):
        return "it uses dual chunk attention"
    window = getattr(config, "sliding_window", None)
    is_used = getattr(config, "use_sliding_window", True) and kinds != {FULL_ATTENTION}
    if window and is_used and window < context_len:
        return f"it uses sliding-window attention, over {window} tokens"
    other = sorted(kinds - {FULL_ATTENTION, "sliding_attention"})
    return f"it has layers of kind {', '.join(other)}" if other else None


def _extras(model_config: Any) -> str | None:
    if getattr(model_config, "has_attention_sinks", False):
        return "it uses learned attention sinks"
    return None


def _positions(model_config: Any) -> str | None:
    config = model_config.hf_text_config
    if model_config.model_is_mrope:
        return "it uses M-RoPE, whose positions have several axes"
    if (
        getattr(config, "alibi", False)
        or getattr(model_config, "use_alibi", False)
        or getattr(config, "position_embedding_type", None) == "alibi"
        or set(model_config.hf_config.architectures or ()) & set(_ALIBI_ARCHITECTURES)
    ):
        return "it uses ALiBi, not rotary position embeddings"
    scaling = getattr(config, "rope_scaling", None) or {}
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind in ("longrope", "su"):
        return "its LongRoPE table depends on the other requests of a pass"
    return None


_CHECKS: tuple[Callable[[Any], str | None], ...] = (
    _purpose,
    _state,
    _latent_attention,
    _extras,
    _windows,
    _positions,
)


def check_implementation(model_config: Any) -> None:
    """Refuse a model that SGLang has no implementation of; only where models are loaded.

    Raises:
        ValueError: names the architecture.
    """
    if compat.runs_on_transformers(model_config):
        raise _unsupported(
            model_config,
            "SGLang runs it on Hugging Face's modules, whose positions cannot be deferred",
        )


def _unsupported(model_config: Any, reason: str) -> ValueError:
    architecture = (model_config.hf_config.architectures or ["this model"])[0]
    return ValueError(f"--chunk-cache lazy does not support {architecture}: {reason}")
