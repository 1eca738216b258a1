"""The plugin's settings, as they travel on ``ServerArgs`` to every process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sglang_lazy.request.segments import ChunkContext

CacheMode = Literal["off", "lazy"]

RADIX_CACHE_BACKEND = "sglang_lazy"
"""Name under which the chunk cache is registered with SGLang."""

GDSF = "gdsf"
"""The value of ``--radix-eviction-policy`` that the plugin adds (cache/eviction.py)."""

SERVER_ARGS_ATTRIBUTE = "_chunk_cache"
"""Underscore names pass ServerArgs' read-only guard and survive pickling."""


@dataclass(frozen=True)
class LazyConfig:
    """The ``--chunk-*`` flags.

    Raises:
        ValueError: flags that make no sense, or none together.
    """

    chunk_cache: CacheMode = "off"
    chunk_context: ChunkContext = "sink"
    chunk_link_tokens: int = 0
    chunk_separators: tuple[str, ...] = ()
    chunk_keep_separator: bool = False

    def __post_init__(self) -> None:
        if self.chunk_separators and not self.enabled:
            raise ValueError("--chunk-separator needs --chunk-cache lazy")
        if self.chunk_keep_separator and not self.chunk_separators:
            raise ValueError("--chunk-keep-separator needs a --chunk-separator to keep")
        if not all(isinstance(each, str) and each for each in self.chunk_separators):
            raise ValueError("--chunk-separator must be a text of at least one character")

    @property
    def enabled(self) -> bool:
        return self.chunk_cache == "lazy"


def config_of(server_args: Any) -> LazyConfig:
    """The settings that a ``ServerArgs`` carries; off where it carries none."""
    return getattr(server_args, SERVER_ARGS_ATTRIBUTE, None) or LazyConfig()
