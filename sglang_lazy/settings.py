"""Server settings that the lazy path forces, and those that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sglang_lazy.config import GDSF, RADIX_CACHE_BACKEND

ATTENTION_BACKENDS = ("torch_native", "triton", "fa3", "flashinfer")
"""Stock attention backends that can take the lazy path in front of them."""


def forced_settings() -> dict[str, Any]:
    """Settings of ``ServerArgs`` that the lazy path needs; see :func:`check_given`."""
    return {
        "radix_cache_backend": RADIX_CACHE_BACKEND,
        "page_size": 1,
        # Clients see in the usual fields of their API what was reused.
        "enable_cache_report": True,
    }


class _Refusal(NamedTuple):
    """A setting and the values under which documents are served rightly."""

    field: str
    served: tuple[Any, ...]
    reason: str


_UNSET = (None, False)

_REFUSALS = (
    _Refusal(
        "attention_backend",
        (None, *ATTENTION_BACKENDS),
        f"use one of {', '.join(ATTENTION_BACKENDS)}",
    ),
    _Refusal("speculative_algorithm", _UNSET, "drafts are verified without key spans"),
    _Refusal("disaggregation_mode", (None, "null"), "rows are not in prompt order"),
    _Refusal("pp_size", (1,), "key spans are not passed between stages"),
    _Refusal("dcp_size", (None, 1), "keys of a span lie on other devices"),
    _Refusal("attn_cp_size", (None, 1), "queries of a span lie on other devices"),
    _Refusal("enable_dp_attention", _UNSET, "ranks would plan different passes"),
    _Refusal("enable_two_batch_overlap", _UNSET, "it splits a batch after it was planned"),
    _Refusal("enable_single_batch_overlap", _UNSET, "it splits a batch after it was planned"),
    _Refusal("enable_pdmux", _UNSET, "it splits a batch after it was planned"),
    _Refusal("enable_mixed_chunk", _UNSET, "it joins decoding to a planned prefill"),
    _Refusal("enable_hierarchical_cache", _UNSET, "host copies are keyed by prefix"),
    _Refusal("enable_lmcache", _UNSET, "it replaces the radix tree"),
    _Refusal("enable_flexkv", _UNSET, "it replaces the radix tree"),
    _Refusal("enable_hisparse", _UNSET, "it chooses keys by position"),
    _Refusal("enable_unified_memory", _UNSET, "slots are virtual"),
    _Refusal("enable_deterministic_inference", _UNSET, "kernels are not batch-invariant"),
    _Refusal("dllm_algorithm", _UNSET, "diffusion models attend in both directions"),
    _Refusal("enable_streaming_session", _UNSET, "sessions keep rows in prompt order"),
    _Refusal("enable_session_radix_cache", _UNSET, "it needs another radix tree"),
    _Refusal("disable_radix_cache", _UNSET, "there would be nothing to reuse"),
    _Refusal("kv_events_config", _UNSET, "routers would take documents for prefixes"),
    _Refusal("allow_auto_truncate", _UNSET, "a cut prompt may lose part of a document"),
    _Refusal("schedule_policy", ("fcfs", "lpm", "lof", "random", "routing-key"), "it walks a tree"),
    _Refusal("tokenizer_worker_num", (None, 1), "its processes load no plugins"),
    _Refusal("grpc_mode", _UNSET, "its requests carry no segments"),
    _Refusal("smg_grpc_mode", _UNSET, "its requests carry no segments"),
    _Refusal("kv_canary", (None, "none"), "it takes rows to be in prompt order"),
    _Refusal("debug_cuda_graph", _UNSET, "it runs captured passes without their plan"),
    _Refusal(
        "cuda_graph_backend_prefill",
        (None, "breakable", "disabled"),
        "its graphs have the stock attention inside",
    ),
)

_OWN_FIELDS = {
    "radix_cache_backend": (None, RADIX_CACHE_BACKEND),
    "prefill_attention_backend": (None,),
    "decode_attention_backend": (None,),
    "page_size": (None, 1),
}


def check_given(settings: Mapping[str, Any]) -> None:
    """Check what the user typed, before SGLang fills in the rest.

    Raises:
        ValueError: a setting that the lazy path sets itself, or cannot serve.
    """
    for field, allowed in _OWN_FIELDS.items():
        value = settings.get(field)
        if value not in allowed:
            raise ValueError(
                f"--chunk-cache lazy does not support {_flag(field)} {value}: "
                "leave the option out, it is set as needed"
            )
    from sglang.srt.environ import envs

    for field in ("SGLANG_RUST_SERVER", "SGLANG_RADIX_FORCE_MISS"):
        if getattr(envs, field).get():
            raise ValueError(f"--chunk-cache lazy does not support the environment's {field}")
    _refuse(settings)


def check_eviction_policy(policy: str | None, *, lazy: bool) -> None:
    """Check ``--radix-eviction-policy``, which SGLang's ``Engine`` takes as it comes.

    Raises:
        ValueError: nobody knows it, or the chunk tree alone does and ``lazy`` is False.
    """
    from sglang_lazy.compat import eviction_policies

    name = (policy or "lru").lower()
    if lazy and name not in (known := (*eviction_policies(), GDSF)):
        raise ValueError(f"radix_eviction_policy must be one of {', '.join(known)}; got {policy!r}")
    if not lazy and name == GDSF:
        raise ValueError(f"--radix-eviction-policy {GDSF} needs --chunk-cache lazy")


def check_resolved(server_args: Any) -> None:
    """Check what SGLang made of the settings.

    Raises:
        ValueError: a setting that the lazy path cannot serve.
    """
    from sglang_lazy.compat import prefill_graph_backend, resolved_settings

    settings = resolved_settings(server_args)
    _refuse(settings)
    backend = prefill_graph_backend(server_args)
    if backend is not None:
        _refuse({"cuda_graph_backend_prefill": backend})


def _refuse(settings: Mapping[str, Any]) -> None:
    for field, served, reason in _REFUSALS:
        value = settings.get(field, served[0])
        if value not in served:
            shown = "" if value is True else f" {value}"
            raise ValueError(f"--chunk-cache lazy does not support {_flag(field)}{shown}: {reason}")


def _flag(field: str) -> str:
    return "--" + field.replace("_", "-")
