"""Prompts, and the content of each token's KV: everything that it may depend on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sglang_lazy.request import CUSTOM_PARAMS_KEY, ChunkContext, PromptShape

from .pool import SINK

Content = Hashable
Segments = tuple[tuple[bool, tuple[int, ...]], ...]


def doc(*tokens: int) -> tuple[bool, tuple[int, ...]]:
    return True, tokens


def text(*tokens: int) -> tuple[bool, tuple[int, ...]]:
    return False, tokens


class Part(NamedTuple):
    """A segment as it is computed: link tokens are text."""

    is_document: bool
    tokens: tuple[int, ...]
    head: tuple[int, ...]  # of a document, the tokens of it that are text
    before: Segments  # all that ends before it


@dataclass(frozen=True)
class Prompt:
    """Segments (is_document, tokens), no two texts side by side; the last one is text."""

    segments: Segments
    mode: ChunkContext = "none"
    extra_key: str | None = None
    lora_id: str | None = None
    link_tokens: int = 0

    @classmethod
    def of(
        cls,
        *segments: tuple[bool, tuple[int, ...]],
        mode: ChunkContext = "none",
        link_tokens: int = 0,
    ) -> Prompt:
        return cls(segments, mode, link_tokens=link_tokens)

    @cached_property
    def parts(self) -> list[Part]:
        parts: list[Part] = []
        waiting: tuple[int, ...] = ()
        before: Segments = ()
        for i, (is_document, tokens) in enumerate(self.segments):
            head, tail = tokens[: self.link_tokens], tokens[self.link_tokens :]
            if not (is_document and tail):
                waiting += tokens
                continue
            if waiting + head:
                parts.append(Part(False, waiting + head, (), before))
            parts.append(Part(True, tail, head, self.segments[:i]))
            waiting, before = (), self.segments[: i + 1]
        return [*parts, Part(False, waiting, (), before)]

    @cached_property
    def ids(self) -> list[int]:
        return [token for _, tokens in self.segments for token in tokens]

    @cached_property
    def starts(self) -> list[int]:
        """Where each part begins."""
        return np.cumsum([0, *(len(part.tokens) for part in self.parts)])[:-1].tolist()

    @property
    def has_documents(self) -> bool:
        return any(is_document for is_document, _ in self.segments)

    @property
    def context(self) -> tuple[int, ...]:
        """What documents see before themselves."""
        if len(self.parts) == 1:
            return ()
        is_document, tokens = self.segments[0]
        preamble = () if is_document else tokens
        return {"none": (), "sink": (SINK,), "preamble": preamble}[self.mode]

    @property
    def custom_params(self) -> dict[str, list[int]] | None:
        if not self.has_documents:
            return None
        ends = np.cumsum([len(tokens) for _, tokens in self.segments]).tolist()
        spans = tuple(
            (end - len(tokens), end)
            for end, (is_document, tokens) in zip(ends, self.segments, strict=True)
            if is_document
        )
        shape = PromptShape(len(self.ids), spans, self.mode, self.link_tokens)
        return {CUSTOM_PARAMS_KEY: shape.encode()}

    @property
    def namespace(self) -> Hashable:
        return (self.has_documents, self.extra_key, self.lora_id) if self.is_private else None

    @property
    def is_private(self) -> bool:
        return self.extra_key is not None or self.lora_id is not None

    def full_parts(self, ids: list[int]) -> list[Part]:
        """The parts of this prompt with generated tokens: ``ids`` is all of it."""
        last = self.parts[-1]._replace(tokens=tuple(ids[self.starts[-1] :]))
        return [*self.parts[:-1], last]

    def contents(self, ids: list[int]) -> list[list[Content]]:
        """What the KV of each token depends on, by part."""
        contents: list[list[Content]] = []
        for i, part in enumerate(self.full_parts(ids)):
            ahead = self.context + part.head if part.is_document else ()
            before: Hashable = ("after", self.mode, part.before, self.link_tokens)
            if part.is_document or i == 0:
                before = "path"
            tokens = ahead + part.tokens
            all_contents = [(self.namespace, before, tokens[: j + 1]) for j in range(len(tokens))]
            contents.append(all_contents[len(ahead) :])
        return contents

    def positions(self, ids: list[int]) -> list[int]:
        """Rotary position at which each token is computed."""
        positions: list[int] = []
        for part in self.full_parts(ids):
            first = len(positions)
            if part.is_document:
                first = len(self.context) + len(part.head)
            positions += range(first, first + len(part.tokens))
        return positions

    def detached_contents(self, part: int | None) -> list[Content]:
        """What the KV of a sink (None), or of a document's head as it stands alone, depends on."""
        tokens, skipped = (SINK,), 0
        if part is not None:
            tokens, skipped = self.context + self.parts[part].head, len(self.context)
        return [(self.namespace, "path", tokens[: i + 1]) for i in range(skipped, len(tokens))]
