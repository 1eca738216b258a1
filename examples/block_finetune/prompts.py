"""Prompts around documents: the one of the demo and the evaluation, and others to train on."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from jinja2 import TemplateError

from sglang_lazy.request.segments import SegmentedIds, SegmentedPrompt, TextSegment


class Style(NamedTuple):
    """How a prompt looks. ``system`` None: the chat template's own; "": none."""

    instruction: str = "Answer the question from these notes."
    document: str = "\n\n{document}"
    question: str = "\n\nQuestion: {question}"
    system: str | None = None


CANONICAL = Style()

_INSTRUCTIONS = (
    "Answer the question from these notes.",
    "Answer from these notes.",
    "Answer the question using the documents below.",
    "Answer the question with the help of these passages.",
    "Read the following passages and answer the question.",
    "Use only the context to answer.",
    "Here are some notes.",
    "Context:",
    "You are given several documents. Answer the question that follows them.",
    "Documents",
)
_DOCUMENTS = (
    "\n\n{document}",
    "\n\n{document}",
    "\n{document}",
    "\n\nDocument: {document}",
    "\n- {document}",
    "\n\nPassage:\n{document}",
    "\n<document>{document}</document>",
)
_QUESTIONS = (
    "\n\nQuestion: {question}",
    "\n\nQuestion: {question}",
    "\n\n{question}",
    "\n\nQ: {question}",
    "\n\nQuestion: {question}\nAnswer briefly.",
    "\n\nAnswer this question: {question}",
)
_SYSTEMS = (None, None, None, "", "You are a helpful assistant.", "You answer questions.")


def draw_style(rng: random.Random) -> Style:
    """The usual style every second time, otherwise any combination of pieces."""
    if rng.random() < 0.5:
        return CANONICAL
    return Style(
        rng.choice(_INSTRUCTIONS), rng.choice(_DOCUMENTS), rng.choice(_QUESTIONS),
        rng.choice(_SYSTEMS),
    )  # fmt: skip


def chat_markup(tokenizer: Any, system: str | None = None) -> tuple[str, str]:
    """What the chat template puts before and after one user message.

    A system message that the template refuses becomes the beginning of the user's. Raises
    ``ValueError`` where the template does not show the user's message once, as it is.
    """
    message = "<message>"
    messages = [{"role": "user", "content": message}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    try:
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError:
        if not system:
            raise
        before, after = chat_markup(tokenizer)
        return f"{before}{system}\n\n", after
    if prompt.count(message) != 1:
        raise ValueError(f"the chat template makes {prompt!r} of the user's message {message!r}")
    before, after = prompt.split(message)
    if system == "" and "<|im_start|>user" in before:
        before = before[before.index("<|im_start|>user") :]
    return before, after


def encode(prompt: SegmentedPrompt, tokenizer: Any) -> SegmentedIds:
    """Token ids, each segment on its own as in the engine.

    The chat template writes the special tokens, so the tokenizer adds none.
    """
    ids: list[int] = []
    spans = []
    for text, is_document in prompt.segments:
        start = len(ids)
        ids += tokenizer(text, add_special_tokens=False)["input_ids"]
        if is_document:
            spans.append((start, len(ids)))
    return SegmentedIds(ids, spans)


class PromptBuilder:
    """Builds segments from documents and questions, for one tokenizer's chat template."""

    def __init__(self, tokenizer: Any) -> None:
        self._markup = {s: chat_markup(tokenizer, s) for s in set(_SYSTEMS)}

    def trunk(self, documents: list[str], style: Style = CANONICAL) -> list[TextSegment]:
        """The prompt without its question."""
        before, _ = self._markup[style.system]
        return [
            TextSegment(before + style.instruction, False),
            *(TextSegment(style.document.format(document=d), True) for d in documents),
        ]

    def tail(self, question: str, style: Style = CANONICAL, opening: str = "") -> str:
        """The text behind the documents, up to where the answer begins."""
        _, after = self._markup[style.system]
        return style.question.format(question=question) + after + opening

    def prompt(self, documents: list[str], question: str) -> SegmentedPrompt:
        """The whole prompt in the usual style."""
        return SegmentedPrompt([*self.trunk(documents), TextSegment(self.tail(question), False)])
