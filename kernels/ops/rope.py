"""Rotating queries back by a position offset.

Keys are stored rotated at local positions. With a document's offset Δ
(LazyAttention, arXiv 2606.04302; docs/design.md, "What is computed"),

    <R(p) q, R(p_k) k> = <R(-Δ) [R(p) q], R(p_k - Δ) k>

so a query that the model has rotated at its logical position p is rotated back
by Δ, once per span of keys, and the keys are read as they lie.
"""

from __future__ import annotations

import torch


def rotate_back(
    q: torch.Tensor,
    position_offset: int,
    cos_sin_cache: torch.Tensor,
    is_neox_style: bool,
) -> torch.Tensor:
    """Compute R(-Δ) q in float32.

    Args:
        q: rotated queries, ``[..., head_dim]``, any float dtype.
        position_offset: Δ, signed, with ``|Δ| < max_position``.
        cos_sin_cache: float32 ``[max_position, rotary_dim]``, each row the cosines
            and then the sines of one position, of unit magnitude.
        is_neox_style: pairs are (i, i + rotary_dim/2) if true, else (2i, 2i + 1).

    Returns:
        float32 tensor of the shape of ``q``; dimensions from rotary_dim on pass through.

    Raises:
        ValueError: the offset lies outside the table.
    """
    q = q.float()
    if position_offset == 0:
        return q
    if abs(position_offset) >= len(cos_sin_cache):
        raise ValueError(
            f"position offset {position_offset} lies outside the rotary table "
            f"of {len(cos_sin_cache)} positions"
        )
    cos, sin = cos_sin_cache[abs(position_offset)].chunk(2)
    if position_offset < 0:
        sin = -sin
    rotary_dim = cos_sin_cache.shape[1]
    rotated, passed = q[..., :rotary_dim], q[..., rotary_dim:]
    if is_neox_style:
        x1, x2 = rotated.chunk(2, dim=-1)
    else:
        x1, x2 = rotated[..., ::2], rotated[..., 1::2]
    y1, y2 = x1 * cos + x2 * sin, x2 * cos - x1 * sin
    stacked = torch.cat((y1, y2), -1) if is_neox_style else torch.stack((y1, y2), -1).flatten(-2)
    return torch.cat((stacked, passed), dim=-1)
