"""Everything that depends on the SGLang version.

Written for 0.5.17. Newer releases move fields between ``Req`` and ``req.kv`` and
reshape ``MatchResult``; those differences belong here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req

INFO_KEY = "chunk_cache"


def sglang_version() -> str:
    return version("sglang")


def match_result(slots: torch.Tensor, last_node: Any) -> Any:
    """SGLang's result of a prefix match: int64 slots, and what to lock."""
    from sglang.srt.mem_cache.base_prefix_cache import MatchResult

    return MatchResult(
        device_indices=slots,
        last_device_node=last_node,
        last_host_node=last_node,
        best_match_node=last_node,
    )


def lock_result(delta: int) -> Any:
    from sglang.srt.mem_cache.base_prefix_cache import IncLockRefResult

    return IncLockRefResult(delta=delta)


def unlock_result(delta: int) -> Any:
    from sglang.srt.mem_cache.base_prefix_cache import DecLockRefResult

    return DecLockRefResult(delta=delta)


def namespace(req: Req) -> Hashable:
    """What separates tenants and adapters, as a tagged tuple; None where nothing does.

    SGLang appends the LoRA id to the extra key. Taken apart again, "ab" + "c" is
    not "a" + "bc".
    """
    extra_key, lora_id = req.extra_key, req.lora_id
    cache_salt = getattr(req, "cache_salt", None)
    if lora_id is not None and extra_key is not None:
        extra_key = extra_key.removesuffix(lora_id) or None
    if extra_key is None and lora_id is None and cache_salt is None:
        return None
    return ("extra_key", extra_key, "lora_id", lora_id, "cache_salt", cache_salt)


def attach_info(req: Req, info: Mapping[str, int]) -> None:
    """Send ``info`` with the request's first output token (see :func:`take_infos`)."""
    req.customized_info = {**(req.customized_info or {}), INFO_KEY: [dict(info)]}


def take_infos(output: Any) -> dict[str, Mapping[str, int]]:
    """Remove what :func:`attach_info` sent from a batch of outputs; by request id.

    SGLang pads such values for the other requests of the batch and would show
    them in their ``meta_info`` too.
    """
    from sglang.srt.managers.io_struct import unwrap_from_pickle, wrap_as_pickle

    wrapped = getattr(output, "customized_info", None)
    if wrapped is None:
        return {}
    customized_info = dict(unwrap_from_pickle(wrapped))
    per_request = customized_info.pop(INFO_KEY, None)
    if per_request is None:
        return {}
    output.customized_info = wrap_as_pickle(customized_info) if customized_info else None
    infos = {}
    for rid, values in zip(output.rids, per_request, strict=True):
        found = next((v for v in values if v is not None), None)
        if found is not None:
            infos[rid] = found
    return infos


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


def resolved_settings(server_args: Any) -> Mapping[str, Any]:
    """What SGLang runs with, by field name."""
    return vars(server_args)


def decode_mode() -> Any:
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    return ForwardMode.DECODE


def capture_decode_graphs(model_runner: Any, attn_backend: Any) -> Any:
    """A further set of SGLang's decode graphs, with ``attn_backend`` inside."""
    runner_class = model_runner._decode_cuda_graph_runner_cls()
    return runner_class(model_runner, attn_backend=attn_backend)


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


@contextmanager
def without_decode_graphs(model_runner: Any) -> Iterator[None]:
    """SGLang's decode graphs put aside, so that a decoding pass runs eagerly."""
    runner = model_runner.decode_cuda_graph_runner
    model_runner.decode_cuda_graph_runner = None
    try:
        yield
    finally:
        model_runner.decode_cuda_graph_runner = runner


def model_output(logits_output: Any) -> Any:
    """What ``ModelRunner._forward_raw`` returns for a pass that ran in a graph."""
    from sglang.srt.model_executor.model_runner import ModelRunnerOutput

    return ModelRunnerOutput(logits_output=logits_output, can_run_graph=True)


def flash_attention_3() -> Callable[..., torch.Tensor] | None:
    """``flash_attn_with_kvcache`` of sglang-kernel; None in builds without it."""
    try:
        from sgl_kernel.flash_attn import flash_attn_with_kvcache
    except ImportError:
        return None
    kernel: Callable[..., torch.Tensor] = flash_attn_with_kvcache
    return kernel


def has_decode_graphs(model_runner: Any) -> bool:
    """Whether SGLang replays CUDA graphs when it decodes."""
    from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner

    runner = getattr(model_runner, "decode_cuda_graph_runner", None)
    return isinstance(runner, DecodeCudaGraphRunner) and "cuda" in str(model_runner.device)


def skip_request() -> Any:
    """What ``PrefillAdder.add_one_req`` returns to go on with the next request."""
    from sglang.srt.managers.schedule_policy import AddReqResult

    return AddReqResult.CONTINUE


def no_room() -> Any:
    """What ``PrefillAdder.add_one_req`` returns where the pool is too full for a request."""
    from sglang.srt.managers.schedule_policy import AddReqResult

    return AddReqResult.NO_TOKEN


def prefill_graph_backend(server_args: Any) -> str | None:
    """The kind of CUDA graphs that SGLang settled on for prompts."""
    phase = getattr(getattr(server_args, "cuda_graph_config", None), "prefill", None)
    backend = getattr(phase, "backend", None)
    return None if backend is None else str(backend)


SUMMARY_RID = "chunk_cache:"
"""Marks a request for internal state that asks for the cache's summary instead.

A message type of our own would need SGLang's message decoder to know it."""


async def ask_for_summaries(manager: Any, limit: int) -> list[Any]:
    """Ask every scheduler for its summary, from the tokenizer process."""
    from sglang.srt.managers.io_struct import GetInternalStateReq

    manager.auto_create_handle_loop()
    request = GetInternalStateReq(rid=f"{SUMMARY_RID}{limit}")
    replies = await manager.get_internal_state_communicator(request)
    return [reply.internal_state for reply in replies]


def summary_limit(request: Any) -> int | None:
    """How many documents a request for internal state wants listed; None for SGLang's own."""
    rid = request.rid
    return int(rid[len(SUMMARY_RID) :]) if rid and rid.startswith(SUMMARY_RID) else None


def summary_reply(summary: dict[str, Any]) -> Any:
    from sglang.srt.managers.io_struct import GetInternalStateReqOutput

    return GetInternalStateReqOutput(internal_state=summary)


def dp_rank(scheduler: Any) -> int:
    """The scheduler's rank in data parallelism; 0 without."""
    return scheduler.ps.dp_rank or 0


def for_administrators(endpoint: Any) -> Any:
    """Protect an endpoint as SGLang protects those on its caches."""
    from sglang.srt.utils.auth import AuthLevel, auth_level

    return auth_level(AuthLevel.ADMIN_OPTIONAL)(endpoint)


def metric_classes(collector: Any) -> dict[str, Any]:
    """The classes that SGLang makes its metrics of: Prometheus's, unless it was given others."""
    # prometheus_client decides on import, by the environment, whether processes share values.
    from prometheus_client import Counter, Gauge, Histogram

    return {
        "counter": collector._counter_cls or Counter,
        "gauge": collector._gauge_cls or Gauge,
        "histogram": collector._histogram_cls or Histogram,
    }


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
