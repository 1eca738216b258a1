"""Prompts, and the content of each token's KV: everything that it may depend on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sglang_lazy.request import CUSTOM_PARAMS_KEY, ChunkContext, PromptShape

from .pool import SINK

Content = Hashable


def doc(*tokens: int) -> tuple[bool, tuple[int, ...]]:
    return True, tokens


def text(*tokens: int) -> tuple[bool, tuple[int, ...]]:
    return False, tokens


@dataclass(frozen=True)
class Prompt:
    """Segments (is_document, tokens), no two texts side by side; the last one is text."""

    segments: tuple[tuple[bool, tuple[int, ...]], ...]
    mode: ChunkContext = "none"
    extra_key: str | None = None
    lora_id: str | None = None

    @classmethod
    def of(cls, *segments: tuple[bool, tuple[int, ...]], mode: ChunkContext = "none") -> Prompt:
        return cls(segments, mode)

    @cached_property
    def ids(self) -> list[int]:
        return [token for _, tokens in self.segments for token in tokens]

    @cached_property
    def starts(self) -> list[int]:
        return np.cumsum([0, *(len(tokens) for _, tokens in self.segments)])[:-1].tolist()

    @property
    def has_documents(self) -> bool:
        return any(is_document for is_document, _ in self.segments)

    @property
    def context(self) -> tuple[int, ...]:
        """What documents see before themselves."""
        is_document, tokens = self.segments[0]
        preamble = () if is_document else tokens
        return {"none": (), "sink": (SINK,), "preamble": preamble}[self.mode]

    @property
    def custom_params(self) -> dict[str, list[int]] | None:
        if not self.has_documents:
            return None
        spans = tuple(
            (start, start + len(tokens))
            for start, (is_document, tokens) in zip(self.starts, self.segments, strict=True)
            if is_document
        )
        shape = PromptShape(len(self.ids), spans, self.mode)
        return {CUSTOM_PARAMS_KEY: shape.encode()}

    @property
    def namespace(self) -> Hashable:
        return (self.has_documents, self.extra_key, self.lora_id) if self.is_private else None

    @property
    def is_private(self) -> bool:
        return self.extra_key is not None or self.lora_id is not None

    def full_segments(self, ids: list[int]) -> list[tuple[bool, tuple[int, ...]]]:
        """The segments of this prompt with generated tokens: ``ids`` is all of it."""
        return [*self.segments[:-1], text(*ids[self.starts[-1] :])]

    def contents(self, ids: list[int]) -> list[list[Content]]:
        """What the KV of each token depends on, by segment."""
        contents: list[list[Content]] = []
        for i, (is_document, tokens) in enumerate(self.full_segments(ids)):
            before: Hashable = ("after", self.mode, self.segments[:i])
            if is_document:
                tokens, before = self.context + tokens, "path"
            elif i == 0:
                before = "path"
            contents.append([(self.namespace, before, tokens[: j + 1]) for j in range(len(tokens))])
            if is_document:
                del contents[-1][: len(self.context)]
        return contents

    def positions(self, ids: list[int]) -> list[int]:
        """Rotary position at which each token is computed."""
        positions: list[int] = []
        for is_document, tokens in self.full_segments(ids):
            first = len(self.context) if is_document else len(positions)
            positions += range(first, first + len(tokens))
        return positions

    @property
    def sink_content(self) -> Content:
        return (self.namespace, "path", (SINK,))
