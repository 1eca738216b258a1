"""Settings, endpoints and metrics of the server."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any


def sglang_version() -> str:
    return version("sglang")


def resolved_settings(server_args: Any) -> Mapping[str, Any]:
    """What SGLang runs with, by field name."""
    return vars(server_args)


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


def eviction_policies() -> tuple[str, ...]:
    """The values of ``--radix-eviction-policy`` that SGLang's radix tree knows."""
    from sglang.srt.mem_cache import utils

    return tuple(utils._EVICTION_POLICY_FACTORIES)


def offer_eviction_policy(name: str) -> None:
    """Let the command line take one more value of ``--radix-eviction-policy``."""
    from sglang.srt import server_args

    if name not in server_args.RADIX_EVICTION_POLICY_CHOICES:
        server_args.add_radix_eviction_policy_choices([name])
