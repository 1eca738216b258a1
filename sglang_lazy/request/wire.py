"""The form in which a prompt's structure crosses from the tokenizer to the scheduler.

It rides in ``SamplingParams.custom_params``, which both of SGLang's transports
(pickle and msgpack) carry unchanged as long as the values are flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sglang_lazy.request.segments import CHUNK_CONTEXTS, ChunkContext

CUSTOM_PARAMS_KEY = "__sglang_lazy_prompt__"


class PromptShape(NamedTuple):
    """Where the documents of a prompt of ``num_tokens`` tokens lie, and how they are encoded."""

    num_tokens: int
    document_spans: tuple[tuple[int, int], ...]
    chunk_context: ChunkContext
    link_tokens: int = 0

    def encode(self) -> list[int]:
        mode = CHUNK_CONTEXTS.index(self.chunk_context)
        ends = (x for span in self.document_spans for x in span)
        return [mode, self.link_tokens, self.num_tokens, *ends]

    @classmethod
    def decode(cls, flat: Sequence[int]) -> PromptShape:
        mode, link_tokens, num_tokens, *ends = flat
        spans = tuple(zip(ends[::2], ends[1::2], strict=True))
        return cls(num_tokens, spans, CHUNK_CONTEXTS[mode], link_tokens)  # type: ignore[arg-type]

    @classmethod
    def from_custom_params(cls, custom_params: Any) -> PromptShape | None:
        """The shape that a request carries, or None for a prompt without documents."""
        if not isinstance(custom_params, dict):
            return None
        flat = custom_params.get(CUSTOM_PARAMS_KEY)
        return None if flat is None else cls.decode(flat)
