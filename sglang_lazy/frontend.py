"""``document(text)`` for SGLang's frontend language.

    @sgl.function
    def answer(s, passages, question):
        s += "Answer from the passages.\\n"
        for passage in passages:
            s += document(passage)
        s += question + sgl.gen("answer")

The interpreter keeps a program's text in one string. A :class:`SegmentedPrompt`
is such a string and remembers what in it is a document, through appending,
forking and slicing; when it is sent, its structure goes along as ``segments``.
"""

from __future__ import annotations

from typing import Any

from sglang.lang.ir import SglConstantText

from sglang_lazy.patches.runtime_endpoint import install
from sglang_lazy.request.segments import SegmentedPrompt, TextSegment


def document(text: str) -> Any:
    """A document to append to a program's state: its KV is computed once and reused anywhere.

    Raises:
        TypeError: ``text`` is not a string.
        ValueError: it is empty.
    """
    if not isinstance(text, str):
        raise TypeError(f"document() takes a string; got {type(text).__name__}")
    if not text:
        raise ValueError("document() got an empty string")
    install()
    return SglConstantText(SegmentedPrompt([TextSegment(str(text), True)]))
