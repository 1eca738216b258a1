"""``GET /chunk_cache``, added where the HTTP server's way to the schedulers is made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sglang_lazy.config import config_of
from sglang_lazy.observe.endpoint import add_route
from sglang_lazy.patches.registry import around


@around("sglang.srt.managers.tokenizer_control_mixin.TokenizerControlMixin.init_communicators")
def init_communicators(
    original: Callable[..., None], self: Any, server_args: Any, *args: Any, **kwargs: Any
) -> None:
    original(self, server_args, *args, **kwargs)
    # A hook into the HTTP server itself would import it into every process. Where it runs,
    # it is imported by now; an Engine has none.
    http_server = sys.modules.get("sglang.srt.entrypoints.http_server")
    if http_server is not None and config_of(server_args).enabled:
        add_route(http_server.app, self)
