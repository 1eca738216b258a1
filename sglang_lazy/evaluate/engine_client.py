"""An ``sglang.Engine`` in this process as a :class:`Client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_lazy.evaluate.client import ModelInfo, RequestRefused
from sglang_lazy.provenance import gpu_name


class EngineClient:
    """Starts an engine with ``--chunk-cache lazy``; to be made before the event loop runs.

    Args:
        model_path: folder or name of the model.
        server_args: further options, as for ``sglang.launch_server``.

    Raises:
        ValueError: options that cannot be served.
        SystemExit: options that SGLang does not know.
    """

    def __init__(self, model_path: str, server_args: Sequence[str] = ()) -> None:
        import sglang
        from sglang.srt.plugins import load_plugins
        from sglang.srt.server_args import prepare_server_args

        load_plugins()
        defaults = ["--model-path", model_path, "--chunk-cache", "lazy", "--log-level", "error"]
        self._engine = sglang.Engine(server_args=prepare_server_args([*defaults, *server_args]))

    async def generate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        try:
            output: dict[str, Any] = await self._engine.async_generate(**fields)
        except TypeError as e:
            raise RequestRefused(f"the engine does not take this request: {e}") from None
        except ValueError as e:
            raise RequestRefused(str(e)) from None
        return output

    async def model_info(self) -> ModelInfo:
        args = self._engine.server_args
        return ModelInfo(args.model_path, args.tokenizer_path, gpu_name())

    async def close(self) -> None:
        self._engine.shutdown()
