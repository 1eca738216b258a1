"""The ``--chunk-*`` flags, on the command line and as arguments of ``sglang.Engine``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, get_args

from sglang_lazy.compat import offer_eviction_policy
from sglang_lazy.config import GDSF, SERVER_ARGS_ATTRIBUTE, CacheMode, LazyConfig, config_of
from sglang_lazy.models import check_model
from sglang_lazy.patches.registry import around, verify_hooks, verify_routes
from sglang_lazy.request.segments import CHUNK_CONTEXTS, MAX_LINK_TOKENS, parse_link_tokens
from sglang_lazy.settings import (
    check_eviction_policy,
    check_given,
    check_resolved,
    forced_settings,
)

_TARGET = "sglang.srt.server_args.ServerArgs"


@around(f"{_TARGET}.add_cli_args")
def add_cli_args(original: Callable[..., None], parser: argparse.ArgumentParser) -> None:
    offer_eviction_policy(GDSF)
    original(parser)
    group = parser.add_argument_group(
        "sglang-lazy",
        "Reuse the KV of documents at any position of a prompt. Then --radix-eviction-policy may "
        f"also be '{GDSF}': what is popular, and costly to compute for its size, stays longest.",
    )
    group.add_argument(
        "--chunk-cache",
        choices=get_args(CacheMode),
        default=LazyConfig.chunk_cache,
        help="'lazy' encodes each document of a prompt once and reuses its KV wherever the "
        "document stands; 'off' is SGLang's own prefix cache.",
    )
    group.add_argument(
        "--chunk-context",
        choices=CHUNK_CONTEXTS,
        default=LazyConfig.chunk_context,
        help="What a document sees before itself while it is encoded: 'none' (for "
        "block-fine-tuned checkpoints), one 'sink' token, or the 'preamble', the text before "
        "the prompt's first document.",
    )
    group.add_argument(
        "--chunk-link-tokens",
        type=int,
        default=LazyConfig.chunk_link_tokens,
        metavar="K",
        help="The first K tokens of each document are computed anew for each prompt, in sight "
        f"of everything before them; 0 to {MAX_LINK_TOKENS}.",
    )
    group.add_argument(
        "--chunk-separator",
        action="append",
        metavar="STR",
        help="What stands between two separators in a plain prompt or chat message is a document. "
        "May be given several times; each one separates. A text without separators is ordinary.",
    )
    group.add_argument(
        "--chunk-keep-separator",
        action="store_true",
        help="Leave separators in the prompt, each at the head of what follows it, instead of "
        "taking them out.",
    )


@around(f"{_TARGET}.from_cli_args")
def from_cli_args(original: Callable[..., Any], cls: type, args: argparse.Namespace) -> Any:
    config = LazyConfig(
        chunk_cache=getattr(args, "chunk_cache", LazyConfig.chunk_cache),
        chunk_context=getattr(args, "chunk_context", LazyConfig.chunk_context),
        chunk_link_tokens=getattr(args, "chunk_link_tokens", LazyConfig.chunk_link_tokens),
        chunk_separators=tuple(getattr(args, "chunk_separator", None) or ()),
        chunk_keep_separator=getattr(args, "chunk_keep_separator", False),
    )
    parse_link_tokens(config.chunk_link_tokens)
    check_eviction_policy(getattr(args, "radix_eviction_policy", None), lazy=config.enabled)
    if not config.enabled:
        return original(cls, args)
    verify_routes()
    args = argparse.Namespace(**_with_forced_settings(vars(args)))
    return _attach(original(cls, args), config)


@around(f"{_TARGET}.check_server_args")
def check_server_args(original: Callable[..., None], self: Any) -> None:
    """The last gate before processes start, when SGLang has filled in every setting."""
    original(self)
    if config_of(self).enabled:
        check_model(self.get_model_config())
        check_resolved(self)


def engine_server_args(
    *,
    chunk_cache: CacheMode = LazyConfig.chunk_cache,
    chunk_context: str = LazyConfig.chunk_context,
    chunk_link_tokens: int = LazyConfig.chunk_link_tokens,
    chunk_separator: str | Sequence[str] = (),
    chunk_keep_separator: bool = False,
    **kwargs: Any,
) -> Any:
    """Build the ServerArgs of a ``sglang.Engine``, which calls this in place of the class.

    Raises:
        ValueError: a value, or a combination of settings, that cannot be served.
    """
    from sglang.srt.server_args import ServerArgs

    for name, value, known in (
        ("chunk_cache", chunk_cache, get_args(CacheMode)),
        ("chunk_context", chunk_context, CHUNK_CONTEXTS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
    config = LazyConfig(
        chunk_cache,
        chunk_context,  # type: ignore[arg-type]
        chunk_link_tokens=parse_link_tokens(chunk_link_tokens) or 0,
        chunk_separators=(
            (chunk_separator,) if isinstance(chunk_separator, str) else tuple(chunk_separator)
        ),
        chunk_keep_separator=chunk_keep_separator,
    )
    check_eviction_policy(kwargs.get("radix_eviction_policy"), lazy=config.enabled)
    if not config.enabled:
        return ServerArgs(**kwargs)
    return _attach(ServerArgs(**_with_forced_settings(kwargs)), config)


def _with_forced_settings(given: dict[str, Any]) -> dict[str, Any]:
    verify_hooks()
    check_given(given)
    return {**given, **forced_settings()}


def _attach(server_args: Any, config: LazyConfig) -> Any:
    setattr(server_args, SERVER_ARGS_ATTRIBUTE, config)
    return server_args
