"""The plugin's settings, as they travel on ``ServerArgs`` to every process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sglang_lazy.request.segments import ChunkContext

CacheMode = Literal["off", "lazy"]

RADIX_CACHE_BACKEND = "sglang_lazy"
"""Name under which the chunk cache is registered with SGLang."""

SERVER_ARGS_ATTRIBUTE = "_chunk_cache"
"""Underscore names pass ServerArgs' read-only guard and survive pickling."""


@dataclass(frozen=True)
class LazyConfig:
    """The ``--chunk-*`` flags."""

    chunk_cache: CacheMode = "off"
    chunk_context: ChunkContext = "sink"
    chunk_separators: tuple[str, ...] = ()
    chunk_keep_separator: bool = False

    @property
    def enabled(self) -> bool:
        return self.chunk_cache == "lazy"


def config_of(server_args: Any) -> LazyConfig:
    """The settings that a ``ServerArgs`` carries; off where it carries none."""
    return getattr(server_args, SERVER_ARGS_ATTRIBUTE, None) or LazyConfig()
