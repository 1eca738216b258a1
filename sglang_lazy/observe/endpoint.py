"""``GET /chunk_cache``, on SGLang's HTTP server."""

from __future__ import annotations

from typing import Annotated, Any

from sglang_lazy import compat
from sglang_lazy.config import config_of
from sglang_lazy.observe.summary import MAX_LISTED

PATH = "/chunk_cache"


def add_route(app: Any, manager: Any) -> None:
    """Serve the summary of all schedulers.

    Args:
        app: SGLang's FastAPI application.
        manager: the ``TokenizerManager``, which reaches the schedulers.
    """
    from fastapi import Query

    if any(getattr(route, "path", None) == PATH for route in app.routes):
        return
    config = config_of(manager.server_args)

    async def chunk_cache(
        documents: Annotated[int, Query(ge=0, le=MAX_LISTED)] = 20,
    ) -> dict[str, Any]:
        """What the chunk cache holds, with the documents that were hit most often."""
        schedulers = await compat.ask_for_summaries(manager, documents)
        return {
            "chunk_context": config.chunk_context,
            "schedulers": sorted(schedulers, key=lambda summary: summary["dp_rank"]),
        }

    # It tells of all tenants: with --admin-api-key, only the administrator may ask.
    app.add_api_route(PATH, compat.for_administrators(chunk_cache), methods=["GET"])
