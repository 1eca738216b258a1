"""``GET /chunk_cache``, on SGLang's HTTP server."""

from __future__ import annotations

from typing import Any

from sglang_lazy import compat
from sglang_lazy.config import config_of
from sglang_lazy.observe.summary import MAX_LISTED

PATH = "/chunk_cache"
MAX_DIGITS = 9


def add_route(app: Any, manager: Any) -> None:
    """Serve the summary of all schedulers.

    Args:
        app: SGLang's FastAPI application.
        manager: the ``TokenizerManager``, which reaches the schedulers.
    """
    from fastapi import HTTPException

    if any(getattr(route, "path", None) == PATH for route in app.routes):
        return
    config = config_of(manager.server_args)

    # A string, since SGLang answers 500 to what FastAPI finds wrong with a query.
    async def chunk_cache(documents: str = "20") -> dict[str, Any]:
        """What the chunk cache holds, with the documents that were hit most often."""
        # A number of few digits: Python refuses to read one of thousands.
        is_number = documents.isdecimal() and len(documents) <= MAX_DIGITS
        limit = int(documents) if is_number else MAX_LISTED + 1
        if limit > MAX_LISTED:
            raise HTTPException(400, f"documents must be a number from 0 to {MAX_LISTED}")
        schedulers = await compat.ask_for_summaries(manager, limit)
        return {
            "chunk_context": config.chunk_context,
            "schedulers": sorted(schedulers, key=lambda summary: summary["dp_rank"]),
        }

    # It tells of all tenants: with --admin-api-key, only the administrator may ask.
    app.add_api_route(PATH, compat.for_administrators(chunk_cache), methods=["GET"])
