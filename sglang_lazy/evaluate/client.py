"""What the evaluation asks of whatever runs the model.

Two implementations: a running server (``http_client``) and an engine in this process
(``engine_client``). Both take the fields of SGLang's ``/generate`` and give its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class RequestRefused(ValueError):
    """A request was answered with an error: that request has failed, others may not."""


@dataclass(frozen=True)
class ModelInfo:
    """What is being evaluated."""

    model_path: str
    tokenizer_path: str
    gpu: str


class Client(Protocol):
    """Answers requests, many at a time."""

    async def generate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The output of one request: ``text``, ``meta_info``, ...

        Raises:
            RequestRefused: the request was refused or failed, with the reason.
            ServerUnreachable: nobody answers.
        """

    async def model_info(self) -> ModelInfo:
        """Names the model; raises ServerUnreachable."""

    async def close(self) -> None:
        """Let go of what the client holds."""
