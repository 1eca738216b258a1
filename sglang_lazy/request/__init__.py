"""How a prompt's structure is written by a client and carried to the scheduler."""

from sglang_lazy.request.segments import (
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
    "ChunkContext",
    "PromptShape",
    "SegmentedIds",
    "SegmentedPrompt",
    "TextSegment",
    "parse_document_spans",
    "parse_segments",
]
