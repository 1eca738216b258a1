"""The model's rotary embeddings, layer by layer, as float32 tables of unit rotations."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from sglang_lazy.kernels.rope import rotate_back


class LayerRotary(NamedTuple):
    """How one layer rotates.

    Attributes:
        cos_sin_cache: float32 ``[max_position, rotary_dim]``: cosines, then sines,
            of unit magnitude (YaRN's scale divided out).
        is_neox_style: pairs are halves if true, else neighbours.
    """

    cos_sin_cache: torch.Tensor
    is_neox_style: bool


def find_rotaries(model: torch.nn.Module) -> dict[int, LayerRotary]:
    """Rotary tables by ``layer_id``.

    Raises:
        ValueError: a layer whose positions cannot be deferred; names the module.
    """
    from sglang.srt.layers.radix_attention import RadixAttention

    rotaries: dict[int, LayerRotary] = {}
    tables: dict[int, LayerRotary] = {}  # modules are shared between layers
    for name, module in model.named_modules():
        layers = [c for c in module.children() if isinstance(c, RadixAttention)]
        if not layers:
            continue
        rotary = getattr(module, "rotary_emb", None)
        if rotary is None:
            raise ValueError(
                f"--chunk-cache lazy needs rotary position embeddings, which {name} "
                f"({type(module).__name__}) does not have"
            )
        if id(rotary) not in tables:
            tables[id(rotary)] = _table_of(rotary, name)
        for layer in layers:
            _check_layer(layer, name)
            rotaries[layer.layer_id] = tables[id(rotary)]
    if not rotaries:
        raise ValueError(
            f"--chunk-cache lazy does not support {type(model).__name__}: "
            "no attention layer of a known form was found"
        )
    return rotaries


def _check_layer(layer: Any, name: str) -> None:
    if (layer.sliding_window_size or -1) > -1:
        raise ValueError(
            f"--chunk-cache lazy does not support sliding-window attention, which {name} uses"
        )
    if getattr(layer, "xai_temperature_len", -1) > 0:
        raise ValueError(f"--chunk-cache lazy does not support temperature scaling, used by {name}")
    if getattr(layer, "is_cross_attention", False):
        raise ValueError(f"--chunk-cache lazy does not support cross attention, used by {name}")
    if getattr(layer, "use_irope", False):
        raise ValueError(f"--chunk-cache lazy does not support chunked attention, used by {name}")
    if getattr(layer.attn_type, "value", "decoder") != "decoder":
        raise ValueError(
            f"--chunk-cache lazy does not support attention in both directions, used by {name}"
        )
    if layer.logit_cap > 0 and layer.logit_capping_method != "tanh":
        raise ValueError(
            "--chunk-cache lazy does not support attention logits capped by "
            f"{layer.logit_capping_method}, used by {name}"
        )
    if layer.qk_head_dim != layer.v_head_dim:
        raise ValueError(
            f"--chunk-cache lazy does not support multi-head latent attention, used by {name}"
        )


def _table_of(rotary: Any, name: str) -> LayerRotary:
    unsupported = ValueError(
        f"--chunk-cache lazy does not support the rotary embedding {type(rotary).__name__} "
        f"of {name}"
    )
    if not hasattr(rotary, "_compute_cos_sin_cache") or not hasattr(rotary, "is_neox_style"):
        raise unsupported
    table = rotary.cos_sin_cache
    if table.dtype != torch.float32:
        # Off CUDA the module keeps the table in the model's dtype. SGLang may have
        # lengthened it since.
        exact = rotary._compute_cos_sin_cache().float().to(table.device)
        table = torch.cat((exact, table[len(exact) :].float()))
    found = LayerRotary(table / table[0, 0], rotary.is_neox_style)
    if not _inverts(rotary, found):
        raise unsupported
    return found


def _inverts(rotary: Any, found: LayerRotary) -> bool:
    """Whether rotating back by p undoes what the module does at p, up to its own precision."""
    device, dtype = rotary.cos_sin_cache.device, rotary.cos_sin_cache.dtype
    generator = torch.Generator().manual_seed(0)
    for p in (1, 7, len(found.cos_sin_cache) // 2):
        x = torch.randn(1, rotary.head_size, generator=generator).to(device, dtype)
        at_zero, at_p = (
            rotary.forward_native(torch.tensor([i], device=device), x.clone(), x.clone())[0]
            for i in (0, p)
        )
        back = rotate_back(at_p.view_as(x), p, found.cos_sin_cache, found.is_neox_style)
        error = (back - at_zero.view_as(x).float()).norm() / at_zero.float().norm()
        if not error < 4 * torch.finfo(dtype).eps + 1e-5:
            return False
    return True
