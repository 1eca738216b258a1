"""Calls of the command-line tools on a server, with retries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import requests

RETRIED_STATUSES = (429, 502, 503, 504)
"""Of a server that is busy, or of a proxy in front of it."""

CONNECT_SECONDS, READ_SECONDS = 10, 600
MAX_WAIT_SECONDS = 30.0


class RequestError(RuntimeError):
    """The server refused a request, and will again; ``status`` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ServerUnreachable(RuntimeError):
    """The server gave no answer, however often it was asked."""


class Client:
    """An SGLang server's HTTP API. Safe to share between threads.

    Args:
        url: of the server, without a path.
        api_key: sent as bearer token, if given.
        retries: how often a request is sent again after an error of the connection, or
            while the server is too busy.
        connections: how many threads call at a time.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        retries: int = 8,
        connections: int = 1,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._retries = retries
        self._sleep = sleep
        self._session = requests.Session()
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=connections)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"

    def get(self, path: str, **params: Any) -> requests.Response:
        return self._request("GET", path, params=params)

    def post(self, path: str, fields: Any) -> Any:
        return self._request("POST", path, json=fields).json()

    def _request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        """Send, again where that may help.

        Raises:
            RequestError: the server refuses the request.
            ServerUnreachable: there was no answer.
        """
        fault = ""
        for attempt in range(self._retries + 1):
            if attempt:
                self._sleep(min(0.5 * 2 ** (attempt - 1), MAX_WAIT_SECONDS))
            try:
                response = self._session.request(
                    method, self.url + path, timeout=(CONNECT_SECONDS, READ_SECONDS), **kwargs
                )
            except (requests.ConnectionError, requests.Timeout) as error:
                fault = str(error)
                continue
            if response.status_code in RETRIED_STATUSES:
                fault = _message(response)
                continue
            if not response.ok:
                raise RequestError(response.status_code, _message(response))
            return response
        raise ServerUnreachable(f"{self.url}{path}: {fault}")


def _message(response: requests.Response) -> str:
    """What a response says that is not 200, in one line."""
    if sentence := sentence_of(response.text):
        return f"{response.status_code}: {sentence}"
    return f"{response.status_code} {response.reason}"


def sentence_of(body: str) -> str | None:
    """The sentence in the body of an error; None where there is none."""
    try:
        data = json.loads(body)
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    error = data.get("message") or data.get("error") or data.get("detail")
    if isinstance(error, dict):
        error = error.get("message")
    return _first_sentence(str(error)) if error else None


def _first_sentence(error: str) -> str:
    """SGLang's validation errors repeat the whole request; keep what went wrong."""
    if "'msg': " in error:
        error = error.split("'msg': ", 1)[1].split(", 'input'", 1)[0].strip("'\"")
    return error.splitlines()[0][:300] if error else error
