"""What a model's configuration says of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
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


def break_even_keys(model_config: Any) -> float:
    """How many keys a token attends to when attention costs as much as all else of a layer.

    In multiplications, of a gated MLP: attention takes two of a head's width for each head and
    key; projections and MLP take one for each of their weights that the token meets. Where a
    size is given layer by layer, as in Gemma 3n and Hunyuan, its mean counts.
    """
    hf = model_config.hf_text_config
    heads, head_dim = model_config.num_attention_heads, model_config.head_dim
    kv_heads, hidden = model_config.get_total_num_kv_heads(), model_config.hidden_size
    experts = _mean_size(hf, "num_experts_per_tok") or 1
    inner = _mean_size(hf, "moe_intermediate_size") or _mean_size(hf, "intermediate_size")
    weights = 2 * hidden * head_dim * (heads + kv_heads) + 3 * hidden * inner * experts
    return float(weights / (2 * heads * head_dim))


def _mean_size(hf_config: Any, name: str) -> float:
    """A size, or the mean of a list of them; 0 where there is none."""
    size = getattr(hf_config, name, None) or 0
    return fmean(size) if isinstance(size, Sequence) else float(size)
