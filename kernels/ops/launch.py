"""Checks that kernel launchers share; errors say which argument, what it must be and what it is."""

from __future__ import annotations

import torch


def check_shape(name: str, tensor: torch.Tensor, expected: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != expected:
        raise ValueError(f"{name} must have shape {expected}, got {tuple(tensor.shape)}")


def check_dtype(name: str, tensor: torch.Tensor, *expected: torch.dtype) -> None:
    if tensor.dtype not in expected:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in expected)
        got = str(tensor.dtype).removeprefix("torch.")
        raise ValueError(f"{name} must be {names}, got {got}")


def check_strides(**tensors: torch.Tensor) -> None:
    """Heads and tokens may lie anywhere, but a row's elements must lie side by side."""
    for name, tensor in tensors.items():
        if tensor.stride(-1) != 1:
            raise ValueError(
                f"{name} must be contiguous in its last dimension, got strides {tensor.stride()}"
            )


def check_device(device: torch.device, **tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.device != device:
            raise ValueError(f"{name} must be on {device}, got {tensor.device}")


def check_rotary_table(cos_sin_cache: torch.Tensor, head_dim: int) -> None:
    check_dtype("cos_sin_cache", cos_sin_cache, torch.float32)
    rotary_dim = cos_sin_cache.shape[-1]
    if cos_sin_cache.ndim != 2 or rotary_dim % 2 or not 2 <= rotary_dim <= head_dim:
        raise ValueError(
            "cos_sin_cache must have shape (max_position, rotary_dim) with an even rotary_dim "
            f"of at most head_dim {head_dim}, got {tuple(cos_sin_cache.shape)}"
        )
    if not cos_sin_cache.is_contiguous():
        raise ValueError(f"cos_sin_cache must be contiguous, got strides {cos_sin_cache.stride()}")
