"""Running passes: KV pools, CUDA graphs, kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from sglang_lazy.compat.lora import forget_adapters


def write_kv(
    pool: Any, layer: Any, out_cache_loc: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> None:
    """Store a pass's keys and values, ``[num_tokens, num_kv_heads, head_dim]`` each."""
    from sglang.srt.mem_cache.memory_pool import KVWriteLoc

    where = KVWriteLoc(out_cache_loc, None)
    if layer.k_scale is None:
        pool.set_kv_buffer(layer, where, k, v)
    else:
        # The pool divides in place.
        pool.set_kv_buffer(layer, where, k.clone(), v.clone(), layer.k_scale, layer.v_scale)


def decode_mode() -> Any:
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    return ForwardMode.DECODE


def capture_decode_graphs(model_runner: Any, attn_backend: Any) -> Any:
    """A further set of SGLang's decode graphs, with ``attn_backend`` inside."""
    runner_class = model_runner._decode_cuda_graph_runner_cls()
    return runner_class(model_runner, attn_backend=attn_backend)


def has_decode_graphs(model_runner: Any) -> bool:
    """Whether SGLang replays CUDA graphs when it decodes."""
    from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner

    runner = getattr(model_runner, "decode_cuda_graph_runner", None)
    return isinstance(runner, DecodeCudaGraphRunner) and "cuda" in str(model_runner.device)


@contextmanager
def without_decode_graphs(model_runner: Any) -> Iterator[None]:
    """SGLang's decode graphs put aside, so that a decoding pass runs eagerly."""
    runner = model_runner.decode_cuda_graph_runner
    model_runner.decode_cuda_graph_runner = None
    try:
        yield
    finally:
        model_runner.decode_cuda_graph_runner = runner


def needs_last_logits_only(forward_batch: Any) -> bool:
    """Whether a pass asks for nothing but the logits of each request's last token."""
    if forward_batch.forward_mode.is_decode():
        return True
    wants_input_logprobs = forward_batch.return_logprob and any(
        start < length
        for start, length in zip(
            forward_batch.extend_logprob_start_lens_cpu or (),
            forward_batch.extend_seq_lens_cpu or (),
            strict=True,
        )
    )
    return (
        forward_batch.forward_mode.is_extend()
        and not wants_input_logprobs
        and not forward_batch.capture_hidden_mode.need_capture()
    )


def model_output(logits_output: Any) -> Any:
    """What ``ModelRunner._forward_raw`` returns for a pass that ran in a graph."""
    from sglang.srt.model_executor.model_runner import ModelRunnerOutput

    return ModelRunnerOutput(logits_output=logits_output, can_run_graph=True)


@functools.cache  # Python tries a failed import anew each time, and every pass asks.
def flash_attention_3() -> Callable[..., torch.Tensor] | None:
    """``flash_attn_with_kvcache`` of sglang-kernel; None in builds without it."""
    try:
        from sgl_kernel.flash_attn import flash_attn_with_kvcache
    except ImportError:
        return None
    kernel: Callable[..., torch.Tensor] = flash_attn_with_kvcache
    return kernel


def run_at_positions(model_runner: Any, attn_backend: Any, positions: Sequence[int]) -> None:
    """Run the model eagerly on one token, repeated at ``positions``, as one prompt.

    Attention is ``attn_backend``'s. Slots of the pool, which must be empty, may be written.
    """
    from sglang.srt.model_executor.forward_batch_info import (
        CaptureHiddenMode,
        ForwardBatch,
        ForwardMode,
    )
    from sglang.srt.model_executor.forward_context import ForwardContext, forward_context

    forget_adapters(model_runner)
    n, device = len(positions), model_runner.device

    def tensor(values: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    token_id = min(11, model_runner.model_config.vocab_size - 1)
    batch = ForwardBatch(
        forward_mode=ForwardMode.EXTEND,
        batch_size=1,
        input_ids=tensor([token_id] * n),
        req_pool_indices=tensor([0]),
        seq_lens=tensor([n]),
        seq_lens_cpu=torch.tensor([n]),
        orig_seq_lens=tensor([n]),
        seq_lens_sum=n,
        out_cache_loc=tensor(range(1, n + 1)),
        positions=tensor(positions),
        extend_num_tokens=n,
        extend_seq_lens=tensor([n], torch.int32),
        extend_prefix_lens=tensor([0], torch.int32),
        extend_start_loc=tensor([0], torch.int32),
        extend_seq_lens_cpu=[n],
        extend_prefix_lens_cpu=[0],
        extend_logprob_start_lens_cpu=[n],
        capture_hidden_mode=CaptureHiddenMode.NULL,
        num_token_non_padded=tensor(n, torch.int32),
        num_token_non_padded_cpu=n,
    )
    with forward_context(ForwardContext(attn_backend=attn_backend)), torch.no_grad():
        model_runner.model.forward(batch.input_ids, batch.positions, batch)
