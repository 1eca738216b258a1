"""Everything that depends on the SGLang version.

Written for 0.5.17. Newer releases move fields between ``Req`` and ``req.kv`` and
reshape ``MatchResult``; those differences belong here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
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
