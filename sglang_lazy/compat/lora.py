"""LoRA adapters: which rows of a pass belong to which one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def assign_adapters(
    model_runner: Any, forward_batch: Any, appended: Sequence[tuple[int, int]]
) -> None:
    """Say anew which adapter each row of a pass with documents is computed with.

    SGLang says it by the lengths of the batch's requests, before rows are appended.

    Args:
        model_runner: SGLang's.
        forward_batch: of a pass that runs eagerly.
        appended: rows behind the batch's own, in order: index of the request that they
            belong to, and their number.
    """
    manager = _lora_manager(model_runner)
    if manager is None:
        return
    backend = manager.lora_backend
    # The output layer, where it has adapters, sees the requests' own rows only.
    of_output_layer = backend.lm_head_batch_info, backend.lm_head_pass_batch_infos
    with without_lora_graphs(model_runner):
        manager.prepare_lora_batch(_with_appended(forward_batch, appended))
    backend.lm_head_batch_info, backend.lm_head_pass_batch_infos = of_output_layer


def _with_appended(forward_batch: Any, appended: Sequence[tuple[int, int]]) -> Any:
    """The batch as the LoRA code reads it, with appended rows as requests of their own."""
    if not appended:
        return forward_batch
    counts = [count for _, count in appended]
    view = copy.copy(forward_batch)
    view.batch_size += len(appended)
    view.lora_ids = [*forward_batch.lora_ids, *(forward_batch.lora_ids[i] for i, _ in appended)]
    view.extend_seq_lens_cpu = [*forward_batch.extend_seq_lens_cpu, *counts]
    lengths = forward_batch.extend_seq_lens
    # From pinned memory: any other copy would wait for the passes before this one.
    more = torch.tensor(counts, dtype=lengths.dtype, pin_memory=lengths.is_cuda)
    view.extend_seq_lens = torch.cat((lengths, more.to(lengths.device, non_blocking=True)))
    if forward_batch.extend_logprob_start_lens_cpu is not None:
        view.extend_logprob_start_lens_cpu = [
            *forward_batch.extend_logprob_start_lens_cpu,
            *counts,
        ]
    return view


@contextmanager
def without_lora_graphs(model_runner: Any) -> Iterator[None]:
    """No pass takes its adapters from buffers that CUDA graphs read, nor replays such graphs."""
    manager = _lora_manager(model_runner)
    if manager is None:
        yield
        return
    backend = manager.lora_backend
    has_decode_graphs = hasattr(manager, "max_bs_in_cuda_graph")
    decode_max_bs = getattr(manager, "max_bs_in_cuda_graph", None)
    prefill_max_bs = backend.prefill_cuda_graph_max_bs
    try:
        if has_decode_graphs:
            manager.max_bs_in_cuda_graph = 0
        backend.prefill_cuda_graph_max_bs = None
        yield
    finally:
        if has_decode_graphs:
            manager.max_bs_in_cuda_graph = decode_max_bs
        backend.prefill_cuda_graph_max_bs = prefill_max_bs


def has_adapters(model_runner: Any) -> bool:
    """Whether requests may ask for LoRA adapters."""
    return _lora_manager(model_runner) is not None


def forget_adapters(model_runner: Any) -> None:
    """Run the next pass, unless it says otherwise, on the base model."""
    manager = _lora_manager(model_runner)
    if manager is not None:
        manager.reset_lora_batch()


def _lora_manager(model_runner: Any) -> Any:
    return model_runner.lora_manager if model_runner.server_args.enable_lora else None


class PageableMemory(TorchFunctionMode):
    """Tensors are not pinned where code asks for it: that needs an accelerator."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.pin_memory:
            return args[0]
        return func(*args, **{k: v for k, v in (kwargs or {}).items() if k != "pin_memory"})
