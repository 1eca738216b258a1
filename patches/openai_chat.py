"""Chat completions with documents; the Responses and Anthropic endpoints come through here.

The chat template is rendered once, by SGLang's own code, with placeholders for documents.
That code runs on a view of the serving object whose tokenizer cuts the rendered prompt at
the placeholders and tokenises it segment by segment.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sglang_lazy.config import config_of
from sglang_lazy.patches.openai_protocol import DocumentPart
from sglang_lazy.patches.registry import around
from sglang_lazy.patches.tokenizer_manager import refuse_too_many
from sglang_lazy.request.segments import SegmentedIds, SegmentedPrompt, parse_options
from sglang_lazy.request.tokenize import tokenize_prompt
from sglang_lazy.surfaces import NOT_ENABLED
from sglang_lazy.surfaces.documents import ListedDocument, parse_documents, parse_part
from sglang_lazy.surfaces.messages import Message, place, split_at_separators, with_placeholders
from sglang_lazy.surfaces.options import (
    options_of,
    refuse_options_without_documents,
)
from sglang_lazy.surfaces.placeholders import Placeholders
from sglang_lazy.surfaces.templates import takes_documents

CARRIED = "_chunk_cache_carried"
"""Attribute of a serving object's copy: document fields for the chat request that it makes."""

_MEDIA = ("image_url", "video_url", "audio_url")


@around("sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._process_messages")
def process_messages(
    original: Callable[..., Any], self: Any, request: Any, *args: Any, **kwargs: Any
) -> Any:
    if getattr(request, "_processed", None) is not None:
        return request._processed
    for name, value in self.__dict__.get(CARRIED, {}).items():
        setattr(request, name, value)
    result = process_documents(original, self, request, *args, **kwargs)
    return original(self, request, *args, **kwargs) if result is None else result


def process_documents(
    original: Callable[..., Any], self: Any, request: Any, *args: Any, **kwargs: Any
) -> Any:
    """Do what ``_process_messages`` does for a request with documents or separators; None
    for any other.

    Raises:
        ValueError: with a sentence that names what is wrong with the request.
    """
    config = config_of(self.tokenizer_manager.server_args)
    documents = getattr(request, "documents", None)
    if not config.enabled:
        if documents or any(map(_is_document, _all_parts(request))):
            raise ValueError(NOT_ENABLED)
        return None
    read = _read_messages(request)
    messages = read
    if config.chunk_separators and request.input_ids is None:
        messages = split_at_separators(read, config.chunk_separators, config.chunk_keep_separator)
    options = parse_options(**options_of(request))
    if documents in (None, []) and not any(message.num_documents for message in messages):
        if documents is None and not config.chunk_separators:
            refuse_options_without_documents(options_of(request))
        if all(map(operator.is_, messages, read)):
            return None
        with _rewritten(request, _write_messages(request, read, messages, None), None):
            return original(self, request, *args, **kwargs)
    listed = parse_documents([] if documents is None else documents)
    _refuse_combinations(self, request, messages)
    num_documents = len(listed) + sum(message.num_documents for message in messages)
    refuse_too_many(num_documents)

    placeholders = Placeholders(str(request.model_dump()))
    template_documents = None
    if listed and template_takes_documents(self):
        template_documents = _for_template(listed, placeholders)
    elif listed:
        messages = place(messages, listed)
    written = _write_messages(request, read, messages, placeholders)
    faults: list[ValueError] = []
    with _rewritten(request, written, template_documents):
        try:
            view = _view(self, placeholders, options, faults)
            result = original(view, request, *args, **kwargs)
        except Exception:
            if faults:  # where there are tools, SGLang has tried again and failed otherwise
                raise ValueError(str(faults[0])) from None
            raise
    if not isinstance(result.prompt_ids, SegmentedIds):
        raise ValueError("this model's chat template leaves out the documents")
    return result


def _all_parts(request: Any) -> Iterator[Any]:
    for message in request.messages:
        if isinstance(message.content, list):
            yield from message.content


def _is_document(part: Any) -> bool:
    return isinstance(part, DocumentPart)


def _read_messages(request: Any) -> list[Message]:
    return [
        Message(message.role, tuple(_read_parts(message.content, f"messages[{i}].content")))
        for i, message in enumerate(request.messages)
    ]


def _read_parts(content: Any, where: str) -> Iterator[Any]:
    for i, part in enumerate(content if isinstance(content, list) else (content,)):
        if _is_document(part):
            yield parse_part(part.model_dump(), f"{where}[{i}]")
        elif getattr(part, "type", None) == "text":
            yield part.text
        elif part is not None:
            yield part


def _refuse_combinations(self: Any, request: Any, messages: Sequence[Message]) -> None:
    if request.input_ids is not None:
        raise ValueError("input_ids cannot be combined with documents")
    if self.chat_encoding_spec is not None:
        raise ValueError(
            "this model's messages are encoded without a chat template, which documents need"
        )
    if request.continue_final_message and messages[-1].num_documents:
        raise ValueError("continue_final_message cannot continue a message that has documents")
    if (request.chat_template_kwargs or {}).get("documents") and request.documents:
        raise ValueError("give documents or chat_template_kwargs['documents'], not both")
    for message in messages:
        for part in message.parts:
            if getattr(part, "type", None) in _MEDIA:
                raise ValueError(f"{part.type} cannot be combined with documents")


def template_takes_documents(self: Any) -> bool:
    is_jinja = self.template_manager.chat_template_name is None
    return is_jinja and takes_documents(self.tokenizer_manager.tokenizer)


def _for_template(
    listed: Sequence[ListedDocument], placeholders: Placeholders
) -> list[dict[str, Any]]:
    return [{**entry.for_template, "text": placeholders.put(entry.document)} for entry in listed]


def _write_messages(
    request: Any,
    read: Sequence[Message],
    messages: Sequence[Message],
    placeholders: Placeholders | None,
) -> list[Any]:
    """The request's messages: those that have documents or differ from what was ``read`` anew,
    with placeholders for documents, which may be None where there are no documents."""
    written = []
    for stock, was, message in zip(request.messages, read, messages, strict=True):
        if message.num_documents or message is not was:
            parts = list(message.parts)
            if placeholders is not None:
                parts = with_placeholders(parts, placeholders.put)
            stock = stock.model_copy()
            stock.content = _content(parts)
        written.append(stock)
    return written


def _content(parts: list[Any]) -> Any:
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionMessageContentTextPart

    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return [
        ChatCompletionMessageContentTextPart(type="text", text=part)
        if isinstance(part, str)
        else part
        for part in parts
    ]


@contextmanager
def _rewritten(request: Any, messages: list[Any], template_documents: Any) -> Iterator[None]:
    """The request with these messages and documents while SGLang renders it.

    Rendering also fills in fields of the request that are read later, so it gets the
    request itself.
    """
    stock_messages, request.messages = request.messages, messages
    if template_documents is not None:
        given = request.chat_template_kwargs or {}
        request.chat_template_kwargs = {**given, "documents": template_documents}
    try:
        yield
    finally:
        request.messages = stock_messages
        if template_documents is not None:
            request.chat_template_kwargs.pop("documents", None)


class _View:
    """An object with some attributes replaced; the object itself stays as it is."""

    def __init__(self, target: Any, **replaced: Any) -> None:
        self.__dict__.update(replaced, _target=target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_target":  # copy and pickle ask before it is there
            raise AttributeError(name)
        return getattr(self._target, name)


def _view(
    serving: Any, placeholders: Placeholders, options: dict[str, Any], faults: list[ValueError]
) -> Any:
    """A serving object whose tokenizer puts the documents back and keeps them apart.

    What it refuses is added to ``faults``.
    """
    tokenizer = serving.tokenizer_manager.tokenizer

    def encode(text: str, **kwargs: Any) -> list[int]:
        if not placeholders.are_in(text):
            return tokenizer.encode(text, **kwargs)
        try:
            prompt = SegmentedPrompt(placeholders.segments(text), **options)
            return tokenize_prompt(prompt, tokenizer, kwargs.get("add_special_tokens", True))
        except ValueError as e:
            faults.append(e)
            raise
        except TypeError as e:  # the tokenizer's word for text that is not valid Unicode
            faults.append(ValueError(f"a document or message cannot be tokenised: {e}"))
            raise faults[-1] from None

    view = copy.copy(serving)
    segmenting = _View(tokenizer, encode=encode)
    view.tokenizer_manager = _View(serving.tokenizer_manager, tokenizer=segmenting)
    return view
