"""The tokenizer process: structure in, reuse figures out."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import numpy as np

from sglang_lazy import compat
from sglang_lazy.config import LazyConfig, config_of
from sglang_lazy.patches.generate_request import SegmentedGenerateReqInput
from sglang_lazy.patches.registry import around
from sglang_lazy.request.batch import TextWithOptions
from sglang_lazy.request.segments import SegmentedIds, SegmentedPrompt
from sglang_lazy.request.tenant import TenantKey, tagged_key
from sglang_lazy.request.tokenize import tokenize_prompt
from sglang_lazy.request.wire import CUSTOM_PARAMS_KEY, PromptShape
from sglang_lazy.sink import NO_SINK_TOKEN, find_sink_token
from sglang_lazy.surfaces import NOT_ENABLED
from sglang_lazy.surfaces.separators import split_text

_TARGET = "sglang.srt.managers.tokenizer_manager.TokenizerManager"

MAX_DOCUMENTS = 256
"""Of one prompt. Planning a pass takes time quadratic in them."""

MAX_PENDING_INFOS = 4096
"""Figures kept for answers that nobody may fetch: clients leave, and n > 1 has a silent leader."""

_UNSUPPORTED_FIELDS = (
    "image_data",
    "video_data",
    "audio_data",
    "session_params",
    "return_hidden_states",
    "return_routed_experts",
    "return_indexer_topk",
    "positional_embed_overrides",
    "multi_item_delimiter_indices",
    "bootstrap_host",
    "input_embeds",
)
"""Request fields that cannot be combined with documents."""


@around(f"{_TARGET}.generate_request")
def generate_request(original: Callable[..., Any], self: Any, obj: Any, request: Any = None) -> Any:
    config = config_of(self.server_args)
    if config.enabled and getattr(obj, "cache_salt", None):
        obj.extra_key, obj.cache_salt = TenantKey.of(obj.cache_salt, obj.extra_key), None
    _split_plain_text(obj, config)
    if not _has_structure(obj):
        return original(self, obj, request)
    if not config.enabled:
        raise ValueError(NOT_ENABLED)
    _refuse_combinations(obj)
    try:
        obj.input_ids, obj.text = _tokenized(obj, self.tokenizer), None
    except TypeError as e:  # the tokenizer's word for text that is not valid Unicode
        raise ValueError(f"a segment cannot be tokenised: {e}") from None
    return _with_infos(self, original(self, obj, request))


def _split_plain_text(obj: Any, config: LazyConfig) -> None:
    """Make documents of what stands between the operator's separators.

    Raises:
        ValueError: there are options for documents, and the server has no separators.
    """
    separators = config.chunk_separators

    def split(text: Any) -> Any:
        if type(text) not in (str, TextWithOptions):
            return text
        options = text.options if isinstance(text, TextWithOptions) else {}
        if options and not separators:
            text.refuse()
        segments = split_text(text, separators, config.chunk_keep_separator)
        if segments is None:
            return str(text)
        prompt = SegmentedPrompt(segments, **options)
        return prompt if prompt.has_documents else "".join(s.text for s in segments)

    text = obj.text
    if text is not None and isinstance(obj, SegmentedGenerateReqInput):
        obj.text = [split(t) for t in text] if isinstance(text, list) else split(text)


def _has_structure(obj: Any) -> bool:
    return any(
        isinstance(value, (SegmentedPrompt, SegmentedIds))
        for field in (getattr(obj, "text", None), getattr(obj, "input_ids", None))
        for value in (field if type(field) is list else (field,))
    )


def _refuse_combinations(obj: Any) -> None:
    for name in _UNSUPPORTED_FIELDS:
        if getattr(obj, name, None):
            raise ValueError(f"{name} cannot be combined with documents")


def _tokenized(obj: Any, tokenizer: Any) -> Any:
    """The request's token ids; prompts given as text are tokenised segment by segment."""
    if obj.text is None:
        return obj.input_ids
    if tokenizer is None:
        raise ValueError(
            "this server runs without a tokenizer: give input_ids with document_spans, not segments"
        )
    if isinstance(obj.text, str):
        return tokenize_prompt(obj.text, tokenizer)
    return [tokenize_prompt(prompt, tokenizer) for prompt in obj.text]


@around(f"{_TARGET}._create_tokenized_object")
def create_tokenized_object(
    original: Callable[..., Any],
    self: Any,
    obj: Any,
    input_text: Any = None,
    token_ids: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Attach where a prompt's documents lie to what is sent to the scheduler."""
    if isinstance(token_ids, SegmentedIds):
        # SGLang makes an array of them: three times faster from a plain list.
        token_ids = list(token_ids)
    tokenized = original(self, obj, input_text, token_ids, *args, **kwargs)
    config = config_of(self.server_args)
    if not config.enabled:
        return tokenized
    extra_key = getattr(obj, "extra_key", None)  # requests for embeddings have none
    if isinstance(extra_key, TenantKey):
        tokenized.extra_key = str(extra_key)
    params = tokenized.sampling_params
    has_params = isinstance(params.custom_params, dict)
    if has_params and CUSTOM_PARAMS_KEY in params.custom_params:
        raise ValueError(f"custom_params must not contain the reserved key {CUSTOM_PARAMS_KEY!r}")
    input_ids = getattr(obj, "input_ids", None)
    if isinstance(input_ids, SegmentedIds) and input_ids.document_spans:
        chunk_context = input_ids.chunk_context or config.chunk_context
        if chunk_context == "sink" and not _has_sink_token(self):
            raise ValueError(NO_SINK_TOKEN)
        refuse_too_many(len(input_ids.document_spans))
        _refuse_negative(tokenized.input_ids)
        if params.custom_params is not None and not has_params:
            raise ValueError("custom_params must be an object where a prompt has documents")
        link_tokens = input_ids.chunk_link_tokens
        if link_tokens is None:
            link_tokens = config.chunk_link_tokens
        tokenized.extra_key = tagged_key(extra_key)
        shape = PromptShape(len(input_ids), input_ids.document_spans, chunk_context, link_tokens)
        params.custom_params = {**(params.custom_params or {}), CUSTOM_PARAMS_KEY: shape.encode()}
    return tokenized


def _refuse_negative(input_ids: array[int]) -> None:
    """SGLang refuses ids beyond the vocabulary, but negative ones would end its scheduler."""
    lowest = int(np.frombuffer(input_ids, np.int64).min())
    if lowest < 0:
        raise ValueError(f"input_ids contains {lowest}; token ids are not negative")


def refuse_too_many(num_documents: int) -> None:
    """Raise a ValueError if a prompt has more documents than can be planned."""
    if num_documents > MAX_DOCUMENTS:
        raise ValueError(
            f"the prompt has {num_documents} documents; at most {MAX_DOCUMENTS} are supported"
        )


def _has_sink_token(manager: Any) -> bool:
    found: bool | None = manager.__dict__.get("_chunk_cache_has_sink")
    if found is None:
        token_id = find_sink_token(manager.tokenizer, manager.model_config.hf_config)
        found = manager.__dict__["_chunk_cache_has_sink"] = token_id is not None
    return found


@around(f"{_TARGET}._handle_batch_output")
def handle_batch_output(
    original: Callable[..., Any], self: Any, recv_obj: Any, *args: Any, **kwargs: Any
) -> Any:
    if config_of(self.server_args).enabled:
        pending = _infos_of(self)
        pending.update(compat.take_infos(recv_obj))
        while len(pending) > MAX_PENDING_INFOS:
            del pending[next(iter(pending))]  # the oldest
    return original(self, recv_obj, *args, **kwargs)


def _infos_of(manager: Any) -> dict[str, Mapping[str, int]]:
    """Reuse figures of requests in flight, by request id."""
    infos: dict[str, Mapping[str, int]] = manager.__dict__.setdefault("_chunk_cache_infos", {})
    return infos


async def _with_infos(manager: Any, responses: Any) -> AsyncIterator[Any]:
    """Add ``chunk_cache`` to the ``meta_info`` of each response."""
    infos = _infos_of(manager)
    seen: set[str] = set()
    try:
        async with aclosing(responses):
            async for response in responses:
                for out in response if isinstance(response, list) else (response,):
                    rid = out["meta_info"]["id"]
                    seen.add(rid)
                    if rid in infos:
                        out["meta_info"][compat.INFO_KEY] = dict(infos[rid])
                yield response
    finally:
        for rid in seen:
            infos.pop(rid, None)
