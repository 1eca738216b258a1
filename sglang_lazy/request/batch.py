"""The request fields of one prompt or of a batch, made into prompts that carry structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang_lazy.request.segments import (
    parse_document_spans,
    parse_link_tokens,
    parse_options,
    parse_segments,
)


class TextWithOptions(str):
    """A plain prompt with options for the documents that the operator's separators may mark."""

    options: dict[str, Any]

    def __new__(cls, text: str, chunk_context: Any, chunk_link_tokens: Any) -> TextWithOptions:
        """
        Raises:
            ValueError: with a sentence that names the option and the fault.
        """
        self = super().__new__(cls, text)
        self.options = parse_options(chunk_context, chunk_link_tokens)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), *self.options.values()))

    def refuse(self) -> None:
        """Raise a ValueError: there is nothing in the prompt that can be a document."""
        _refuse_options(**self.options)


def structured_inputs(
    text: Any,
    input_ids: Any,
    segments: Any,
    document_spans: Any,
    chunk_context: Any,
    chunk_link_tokens: Any = None,
) -> tuple[Any, Any]:
    """Fold structure into ``text`` or ``input_ids``, for one prompt or a batch of them.

    Args:
        text: plain prompt or list of prompts, or None.
        input_ids: token ids of one prompt or of each prompt, or None.
        segments: list of segments; for a batch, a list of such lists, where a plain
            string stands for a prompt without documents.
        document_spans: list of ``[start, end)``; for a batch, one such list (or None)
            per prompt.
        chunk_context: override of ``--chunk-context``, for all prompts or one each.
        chunk_link_tokens: override of ``--chunk-link-tokens``, for all prompts or one each.

    Returns:
        The new ``text`` and ``input_ids``. Options of plain text, which only a server with
        separators takes, go with the text (``TextWithOptions``).

    Raises:
        ValueError: with a sentence that names the fault, and the prompt in a batch.
    """
    if segments is not None:
        if text is not None or input_ids is not None or document_spans is not None:
            raise ValueError(
                "give a prompt either as segments, or as text, or as input_ids with "
                "document_spans; not as several of them"
            )
        return _from_segments(segments, chunk_context, chunk_link_tokens), None
    if document_spans is not None:
        if input_ids is None:
            raise ValueError(
                "document_spans needs input_ids; mark documents in text by segments instead"
            )
        if text is not None:
            raise ValueError("give a prompt either as text, or as input_ids with document_spans")
        return text, _from_spans(input_ids, document_spans, chunk_context, chunk_link_tokens)
    if chunk_context is None and chunk_link_tokens is None:
        return text, input_ids
    return _with_options(text, chunk_context, chunk_link_tokens), input_ids


def _from_segments(segments: Any, chunk_context: Any, chunk_link_tokens: Any) -> Any:
    """One prompt, or a list of them."""
    if not _is_batch_of_segments(segments):
        return parse_segments(segments, chunk_context, chunk_link_tokens)
    options = _per_prompt(chunk_context, chunk_link_tokens, len(segments))
    return [
        prompt if isinstance(prompt, str) else _at(i, parse_segments, prompt, *option)
        for i, (prompt, option) in enumerate(zip(segments, options, strict=True))
    ]


def _from_spans(
    input_ids: Any, document_spans: Any, chunk_context: Any, chunk_link_tokens: Any
) -> Any:
    """Token ids of one prompt, or of each prompt of a list."""
    if not _is_batch_of_ids(input_ids):
        return parse_document_spans(input_ids, document_spans, chunk_context, chunk_link_tokens)
    if not isinstance(document_spans, Sequence) or len(document_spans) != len(input_ids):
        raise ValueError(
            f"document_spans must have one list for each of the {len(input_ids)} prompts"
        )
    options = _per_prompt(chunk_context, chunk_link_tokens, len(input_ids))
    prompts = zip(input_ids, document_spans, options, strict=True)
    return [
        _at(i, parse_document_spans, ids, spans or (), *option)
        for i, (ids, spans, option) in enumerate(prompts)
    ]


def _with_options(text: Any, chunk_context: Any, chunk_link_tokens: Any) -> Any:
    """Plain text of one prompt, or of each prompt of a list."""
    if isinstance(text, str):
        return TextWithOptions(text, chunk_context, chunk_link_tokens)
    if text is None or not all(isinstance(prompt, str) for prompt in text):
        _refuse_options(chunk_context, chunk_link_tokens)
    options = _per_prompt(chunk_context, chunk_link_tokens, len(text))
    return [
        prompt if option == (None, None) else _at(i, TextWithOptions, prompt, *option)
        for i, (prompt, option) in enumerate(zip(text, options, strict=True))
    ]


def _refuse_options(chunk_context: Any, chunk_link_tokens: Any) -> None:
    if chunk_context is not None:
        raise ValueError("chunk_context needs segments or document_spans")
    if chunk_link_tokens is not None:
        raise ValueError("chunk_link_tokens needs segments or document_spans")


def _is_batch_of_segments(segments: Any) -> bool:
    return (
        isinstance(segments, Sequence)
        and len(segments) > 0
        and isinstance(segments[0], (str, Sequence))
        and not isinstance(segments, str)
    )


def _is_batch_of_ids(input_ids: Any) -> bool:
    return (
        isinstance(input_ids, Sequence)
        and len(input_ids) > 0
        and isinstance(input_ids[0], Sequence)
    )


def _per_prompt(chunk_context: Any, chunk_link_tokens: Any, count: int) -> list[tuple[Any, Any]]:
    """Both overrides, of each prompt."""
    contexts = chunk_context
    if contexts is None or isinstance(contexts, str):
        contexts = [contexts] * count
    elif not isinstance(contexts, Sequence) or len(contexts) != count:
        raise ValueError(f"chunk_context must be one mode, or a list of {count} modes")
    link_tokens = chunk_link_tokens
    if not isinstance(link_tokens, Sequence) or isinstance(link_tokens, str):
        link_tokens = [parse_link_tokens(link_tokens)] * count
    elif len(link_tokens) != count:
        raise ValueError(f"chunk_link_tokens must be one number, or a list of {count} numbers")
    return list(zip(contexts, link_tokens, strict=True))


def _at(index: int, parse: Any, *args: Any) -> Any:
    try:
        return parse(*args)
    except ValueError as e:
        raise ValueError(f"prompt {index} of the batch: {e}") from None
