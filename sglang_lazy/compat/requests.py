"""What SGLang's cache, scheduler and outputs exchange about requests."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req


INFO_KEY = "chunk_cache"


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


def skip_request() -> Any:
    """What ``PrefillAdder.add_one_req`` returns to go on with the next request."""
    from sglang.srt.managers.schedule_policy import AddReqResult

    return AddReqResult.CONTINUE


def no_room() -> Any:
    """What ``PrefillAdder.add_one_req`` returns where the pool is too full for a request."""
    from sglang.srt.managers.schedule_policy import AddReqResult

    return AddReqResult.NO_TOKEN


def would_be_chunked(adder: Any, req: Req) -> bool:
    """Whether a request that was matched exceeds what the pass has left for prompts."""
    left = adder.rem_chunk_tokens
    missing = len(req.full_untruncated_fill_ids) - len(req.prefix_indices)
    return left is not None and missing > left
