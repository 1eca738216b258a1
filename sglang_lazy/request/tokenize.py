"""From text segments to token ids and document spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_lazy.request.segments import SegmentedIds, SegmentedPrompt


def tokenize_prompt(prompt: str, tokenizer: Any, add_special_tokens: bool = True) -> SegmentedIds:
    """Tokenise each segment on its own, so that a document's ids never depend on its neighbours.

    Special tokens are added to the first segment only. Where that segment is a
    document, the tokenizer's leading special tokens become a text segment before
    it: they belong to the prompt, and the document's ids stay the same everywhere.

    Args:
        prompt: a plain string (one text segment) or a :class:`SegmentedPrompt`.
        tokenizer: a Hugging Face tokenizer.
        add_special_tokens: False where the prompt has them already, from a chat template.

    Raises:
        ValueError: a document, or the text after the last document, has no tokens.
    """
    if not isinstance(prompt, SegmentedPrompt):
        return SegmentedIds(
            tokenizer(prompt, add_special_tokens=add_special_tokens)["input_ids"], ()
        )

    def encode(text: str, special: bool) -> list[int]:
        return tokenizer(text, add_special_tokens=special)["input_ids"]

    input_ids: list[int] = []
    spans: list[tuple[int, int]] = []
    for i, segment in enumerate(prompt.segments):
        start = len(input_ids)
        if not segment.is_document:
            input_ids += encode(segment.text, add_special_tokens and i == 0)
            continue
        if add_special_tokens and i == 0:
            input_ids += _leading_special_ids(encode)
            start = len(input_ids)
        ids = encode(segment.text, False)
        if not ids:
            raise ValueError(f"segments[{i}] is an empty document: it has no tokens")
        input_ids += ids
        spans.append((start, len(input_ids)))
    if spans and spans[-1][1] == len(input_ids):
        raise ValueError(
            "the prompt ends in a document; the text after the last document has no tokens"
        )
    return SegmentedIds(input_ids, spans, prompt.chunk_context, prompt.chunk_link_tokens)


def _leading_special_ids(encode: Callable[[str, bool], list[int]]) -> list[int]:
    """The special tokens that the tokenizer puts in front of any text."""
    bare, full = encode("a", False), encode("a", True)
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return full[:start]
    return []
