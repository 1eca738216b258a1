"""Registering hooks with SGLang, and proving that they run."""

from __future__ import annotations

import functools
import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from sglang_lazy.compat import sglang_version

HOOK_MODULES = (
    "anthropic_protocol",
    "anthropic_serving",
    "engine",
    "forward_batch",
    "generate_request",
    "metrics_collector",
    "model_runner",
    "openai_base",
    "openai_chat",
    "openai_completions",
    "openai_protocol",
    "openai_responses",
    "prefill_adder",
    "scheduler",
    "server_args",
    "tokenizer_control",
    "tokenizer_manager",
    "weight_updater",
    "without_accelerator",
)
"""Modules of this package that register hooks when imported."""

_PROBE = object()

_around_hooks: dict[str, Callable[..., Any]] = {}
_classes: dict[str, type] = {}


class HookError(RuntimeError):
    """A hook into SGLang does not take effect."""


def around(target: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wrap ``target`` (a dotted path): the hook gets the original and its arguments."""

    def register(hook: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(hook)
        def answering(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if any(arg is _PROBE for arg in args):
                return _PROBE
            return hook(original, *args, **kwargs)

        _around_hooks[target] = answering
        return hook

    return register


def replace_class(target: str, replacement: type) -> None:
    """Replace the class at ``target`` (a dotted path) by a subclass of it."""
    _classes[target] = replacement


def install_hooks() -> None:
    """Register every hook with SGLang's registry, which applies them after all plugins ran."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for name in HOOK_MODULES:
        import_module(f"sglang_lazy.patches.{name}")
    for target, replacement in _classes.items():
        HookRegistry.register(target, replacement, HookType.REPLACE)
    for target, hook in _around_hooks.items():
        HookRegistry.register(target, hook, HookType.AROUND)


def verify_hooks() -> None:
    """Call every target with a probe.

    Raises:
        HookError: a target does not reach its hook; names it and the SGLang version.
    """
    missing = [target for target, cls in _classes.items() if _resolve(target) is not cls]
    for target in _around_hooks:
        function = _resolve(target)
        try:
            answered = function is not None and function(_PROBE) is _PROBE
        except Exception:
            answered = False
        if not answered:
            missing.append(target)
    if missing or not _around_hooks:
        raise HookError(
            f"--chunk-cache lazy cannot run on SGLang {sglang_version()}: the hook into "
            f"{', '.join(missing) or 'SGLang'} does not take effect; "
            "start without --chunk-cache, or use an SGLang version that sglang-lazy supports"
        )


def verify_routes() -> None:
    """Look at the HTTP server's routes, where it was imported: if that was before plugins were
    loaded, they read requests by the classes that were replaced.

    Raises:
        HookError: a route does; names it and the class.
    """
    server = sys.modules.get("sglang.srt.entrypoints.http_server")
    if server is None:
        return
    stale = {base for cls in _classes.values() for base in cls.__mro__[1:]}
    for route in server.app.routes:
        body = getattr(route, "body_field", None)
        annotation = None if body is None else body.field_info.annotation
        if isinstance(annotation, type) and annotation in stale:
            raise HookError(
                f"--chunk-cache lazy cannot run: {route.path} reads requests by SGLang's own "
                f"{annotation.__name__}, since sglang.srt.entrypoints.http_server was imported "
                "before the plugins were loaded; call sglang.srt.plugins.load_plugins() first"
            )


def _resolve(target: str) -> Any:
    try:
        return pkgutil.resolve_name(target)
    except (AttributeError, ImportError):
        return None
