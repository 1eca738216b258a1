"""From a question to token ids, the same in every mode.

A template is text with one place for the documents and one for the question. Each document
is tokenised on its own, as the engine does with segments; full attention gets the same ids
without the marks. So modes differ in what attends to what, and in nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang_lazy.evaluate.dataset import Document
from sglang_lazy.request.segments import SegmentedIds, SegmentedPrompt, TextSegment
from sglang_lazy.request.tokenize import tokenize_prompt

DOCUMENTS, QUESTION = "{documents}", "{question}"

MESSAGE = f"Answer the question from these notes.{DOCUMENTS}\n\nQuestion: {QUESTION}"
"""What a user says under ``--template chat``."""

DOCUMENT_FORMAT = "\n\n{title}\n{text}"
"""Separators are part of a document, so that its ids do not depend on its neighbours."""

_PLACES = re.compile(f"({re.escape(DOCUMENTS)}|{re.escape(QUESTION)})")


@dataclass(frozen=True)
class Template:
    """Text around the documents and the question.

    Attributes:
        text: with ``{documents}`` and ``{question}`` once each; other braces are text.
        document_format: with ``{text}`` and, optionally, ``{title}``. A line of the format
            that holds nothing but ``{title}`` is left out for documents without one.
        adds_special_tokens: whether the tokenizer puts its BOS in front. A rendered chat
            template has its own.
    """

    text: str
    document_format: str = DOCUMENT_FORMAT
    adds_special_tokens: bool = True

    def __post_init__(self) -> None:
        for place in (DOCUMENTS, QUESTION):
            if (count := self.text.count(place)) != 1:
                raise ValueError(f"the template must have {place} once; it has it {count} times")
        if self.text.endswith(DOCUMENTS):
            raise ValueError(f"the template ends in {DOCUMENTS}; some text must follow")
        if "{text}" not in self.document_format:
            raise ValueError("the document format must have {text}")

    def segments(self, documents: Sequence[Document], question: str) -> list[TextSegment]:
        """The prompt; neighbouring pieces of text are joined, to be tokenised as one."""
        segments: list[TextSegment] = []
        for piece in _PLACES.split(self.text):
            if piece == DOCUMENTS:
                segments += [TextSegment(self._document(each), True) for each in documents]
                continue
            text = question if piece == QUESTION else piece
            if segments and not segments[-1].is_document:
                text = segments.pop().text + text
            if text:
                segments.append(TextSegment(text, False))
        return segments

    def _document(self, document: Document) -> str:
        text = self.document_format
        if not document.title:
            text = re.sub(r"(?m)^\{title\}\n", "", text).replace("{title}", "")
        # In one pass, since a title may hold "{text}".
        values = {"{title}": document.title, "{text}": document.text}
        return re.sub(r"\{(?:title|text)\}", lambda match: values[match[0]], text)


def file_template(path: Path, document_format: str = DOCUMENT_FORMAT) -> Template:
    """The template in a file, less the newline that ends it.

    Raises:
        ValueError: a place is missing, or occurs twice.
    """
    return Template(path.read_text(encoding="utf-8").removesuffix("\n"), document_format)


def chat_template(
    tokenizer: Any,
    message: str = MESSAGE,
    document_format: str = DOCUMENT_FORMAT,
    arguments: Mapping[str, Any] | None = None,
) -> Template:
    """The tokenizer's chat template, rendered once around the places.

    Args:
        tokenizer: a Hugging Face tokenizer.
        message: what the user says, with both places.
        arguments: further variables of the chat template, such as ``enable_thinking``.

    Raises:
        ValueError: the tokenizer has no chat template, or one that changes the message.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("the tokenizer has no chat template; give a file with --template")
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": message}],
        tokenize=False,
        add_generation_prompt=True,
        **(arguments or {}),
    )
    return Template(rendered, document_format, adds_special_tokens=False)


@dataclass(frozen=True)
class PromptWriter:
    """Writes prompts with one template and one tokenizer."""

    template: Template
    tokenizer: Any

    def prompt(self, documents: Sequence[Document], question: str) -> SegmentedIds:
        """Token ids of the whole prompt, with the spans that are documents.

        Raises:
            ValueError: a document, or the text after the last one, has no tokens.
        """
        segments = self.template.segments(documents, question)
        if self.template.adds_special_tokens:
            return tokenize_prompt(SegmentedPrompt(segments), self.tokenizer)
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        for text, is_document in segments:
            start = len(ids)
            ids += self._encode(text)
            if is_document:
                spans.append((start, len(ids)))
        return SegmentedIds(ids, spans)

    def answer(self, text: str) -> list[int]:
        """Ids of a gold answer that follows a prompt, behind a space where none is there.

        Raises:
            ValueError: the answer has no tokens.
        """
        space = "" if self.template.text[-1].isspace() else " "
        if not (ids := self._encode(space + text)):
            raise ValueError(f"the answer {text!r} has no tokens")
        return ids

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
