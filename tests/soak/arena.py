"""A server to play against: restarted when it has died or hangs, flushed otherwise."""

import contextlib
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import requests

from ..engines import Server
from .verdict import Fault

SETTLE_SECONDS = 30


class Arena:
    """
    Args:
        start: starts a server, as a context manager.
    """

    def __init__(self, start: Callable[[], AbstractContextManager[Server]]) -> None:
        self._start = start
        self._stack = contextlib.ExitStack()
        self.server = self._stack.enter_context(start())

    @property
    def url(self) -> str:
        return self.server.url

    def reset(self) -> None:
        """An empty cache and nothing in flight, on the same server if that still works."""
        with contextlib.suppress(Exception):
            requests.post(f"{self.url}/continue_generation", json={}, timeout=10)
            self.server.flush_cache()
            return
        self.close()
        self.server = self._stack.enter_context(self._start())

    def close(self) -> None:
        self._stack.close()

    def faults_at_rest(self) -> list[Fault]:
        """What is wrong with a server that nobody asks anything any more."""
        if self.server.has_died():
            return [Fault("the server died", None, self.server.log_tail(6000))]
        try:
            held = self._settled()
            if held["protected"] or held["available"] + held["evictable"] != held["capacity"]:
                return [Fault("accounts", None, f"at rest the pool holds {held}")]
            self.server.flush_cache()
            empty = self.tokens()
            if empty["available"] != empty["capacity"] or empty["documents"]:
                return [Fault("accounts", None, f"after a flush the pool holds {empty}")]
        except requests.RequestException as error:
            log = self.server.log_tail(6000)
            return [Fault("the server hangs", None, f"{error}\n{log}")]
        return []

    def summary(self) -> Mapping[str, Any]:
        """`GET /chunk_cache`, of the only scheduler."""
        response = requests.get(f"{self.url}/chunk_cache", timeout=SETTLE_SECONDS)
        response.raise_for_status()
        (scheduler,) = response.json()["schedulers"]
        return scheduler

    def tokens(self) -> Mapping[str, int]:
        return self.summary()["tokens"]

    def _settled(self) -> Mapping[str, int]:
        """The pool's accounts once requests whose clients left are put away."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            held = self.tokens()
            is_idle = not held["protected"]
            is_idle &= held["available"] + held["evictable"] == held["capacity"]
            if is_idle or time.monotonic() > deadline:
                return held
            time.sleep(0.2)
