"""What a model's configuration says of its layers."""

from __future__ import annotations

from typing import Any


def has_state_space_layers(model_config: Any) -> bool:
    """Whether tokens meet in recurrent states: Mamba, linear attention, short convolutions."""
    from sglang.srt.configs import hybrid_arch

    find = (
        hybrid_arch.hybrid_gdn_config,
        hybrid_arch.hybrid_lightning_config,
        hybrid_arch.kimi_linear_config,
        hybrid_arch.mamba2_config,
        hybrid_arch.linear_attn_model_spec,
    )
    return any(f(model_config) is not None for f in find)


def has_latent_attention(model_config: Any) -> bool:
    from sglang.srt.configs.model_config import AttentionArch

    return bool(model_config.attention_arch == AttentionArch.MLA)


def runs_on_transformers(model_config: Any) -> bool:
    """Whether SGLang has no model of its own and runs Hugging Face's modules."""
    from sglang.srt.configs.model_config import ModelImpl
    from sglang.srt.model_loader.utils import get_resolved_model_impl

    return bool(get_resolved_model_impl(model_config) == ModelImpl.TRANSFORMERS)
