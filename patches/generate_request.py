"""Structured prompts, ``cache_salt`` and the ``chunk_*`` overrides of ``/generate``."""

from __future__ import annotations

import dataclasses
from typing import Any

from sglang.srt.managers.io_struct import GenerateReqInput

from sglang_lazy.patches.registry import replace_class
from sglang_lazy.request.batch import structured_inputs


@dataclasses.dataclass
class SegmentedGenerateReqInput(GenerateReqInput):
    """SGLang's request, where structure may be given beside the prompt.

    The new fields are consumed at once: they become a prompt that carries its
    structure (``SegmentedPrompt`` or ``SegmentedIds``) in ``text`` or ``input_ids``.
    ``cache_salt``, which the OpenAI endpoints have, is for the tokenizer process to take.
    """

    segments: Any = None
    document_spans: Any = None
    chunk_context: Any = None
    chunk_link_tokens: Any = None
    cache_salt: Any = None

    def __post_init__(self) -> None:
        given = self.__dict__
        given["text"], given["input_ids"] = structured_inputs(
            given["text"],
            given["input_ids"],
            self.segments,
            self.document_spans,
            self.chunk_context,
            self.chunk_link_tokens,
        )
        self.segments = self.document_spans = None
        self.chunk_context = self.chunk_link_tokens = None


replace_class("sglang.srt.managers.io_struct.GenerateReqInput", SegmentedGenerateReqInput)
