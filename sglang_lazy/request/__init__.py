"""How a prompt's structure is written by a client and carried to the scheduler."""

from sglang_lazy.request.segments import (
    MAX_LINK_TOKENS,
    ChunkContext,
    SegmentedIds,
    SegmentedPrompt,
    TextSegment,
    parse_document_spans,
    parse_segments,
)
from sglang_lazy.request.wire import CUSTOM_PARAMS_KEY, PromptShape

__all__ = [
    "CUSTOM_PARAMS_KEY",
    "MAX_LINK_TOKENS",
    "ChunkContext",
    "PromptShape",
    "SegmentedIds",
    "SegmentedPrompt",
    "TextSegment",
    "parse_document_spans",
    "parse_segments",
]
