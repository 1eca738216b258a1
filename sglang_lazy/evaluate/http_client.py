"""A running server as a :class:`Client`."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from sglang_lazy.evaluate.client import ModelInfo, RequestRefused
from sglang_lazy.http_client import RETRIED_STATUSES, ServerUnreachable, sentence_of
from sglang_lazy.provenance import gpu_name

ATTEMPTS = 4
"""Of a request that gets no answer, a second, two and four apart."""


class HttpClient:
    """Talks to ``url``; to be made and used inside one event loop.

    Args:
        url: address of the server, such as ``http://127.0.0.1:30000``.
        timeout: seconds that an answer may take.
        api_key: the server's ``--api-key``, if it has one.
        retry_seconds: the first pause before an attempt is repeated.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 600,
        api_key: str | None = None,
        retry_seconds: float = 1,
    ) -> None:
        self._url = url.rstrip("/")
        self._retry_seconds = retry_seconds
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout),
            connector=aiohttp.TCPConnector(limit=0),  # the caller limits
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
        )

    async def generate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        output: dict[str, Any] = await self._request("POST", "/generate", fields)
        return output

    async def model_info(self) -> ModelInfo:
        try:
            info = await self._request("GET", "/model_info")
            model, tokenizer = info["model_path"], info["tokenizer_path"]
        except RequestRefused as e:
            raise RequestRefused(f"{self._url}/model_info: {e}") from None
        except (KeyError, TypeError):
            raise RequestRefused(f"{self._url}/model_info names no model: is it SGLang?") from None
        return ModelInfo(model, tokenizer, gpu_name() if _is_local(self._url) else "unknown")

    async def close(self) -> None:
        await self._session.close()

    async def _request(self, method: str, path: str, fields: Any = None) -> Any:
        fault: Exception | str = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(self._retry_seconds * 2 ** (attempt - 1))
            try:
                async with self._session.request(method, self._url + path, json=fields) as response:
                    if response.status == 200:
                        return await response.json()
                    body = await response.text()
                    message = sentence_of(body) or body.strip() or "an answer without a reason"
            except TimeoutError as e:
                raise ServerUnreachable(f"{self._url} did not answer in time") from e
            except aiohttp.ClientError as e:
                fault = e
                continue
            if response.status not in RETRIED_STATUSES:
                raise RequestRefused(message)
            fault = message
        raise ServerUnreachable(f"{self._url} does not answer: {fault}")


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
