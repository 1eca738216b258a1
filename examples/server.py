"""Start an SGLang server as a child process, and stop it whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import requests

START_SECONDS = 600
STOP_SECONDS = 15


class ServerError(RuntimeError):
    """The server did not start, or died."""


def free_port() -> int:
    """A TCP port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A context in which ``python -m sglang.launch_server`` runs and answers.

    The server gets a session of its own, so that leaving the context ends all of
    its processes. Its output goes to ``log``.
    """

    def __init__(self, arguments: Sequence[str], *, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        address = ["--host", "127.0.0.1", "--port", str(port)]
        self.command = [sys.executable, "-m", "sglang.launch_server", *arguments, *address]

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait_until_ready(self, on_wait: Callable[[float], None]) -> float:
        """Return how many seconds the server took to answer; report to ``on_wait`` meanwhile."""
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < START_SECONDS:
            self.check_alive()
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"{self.url}/health", timeout=30).ok:
                    return time.monotonic() - start
            on_wait(elapsed)
            time.sleep(0.25)
        raise ServerError(f"the server did not answer within {START_SECONDS} seconds")

    def check_alive(self) -> None:
        """Raise `ServerError` if the server has ended."""
        if (code := self._process.poll()) is not None:
            raise ServerError(f"the server ended with exit code {code}")

    def log_tail(self, lines: int = 25) -> str:
        """The last lines of the server's output, long ones cut."""
        text = self.log.read_text(errors="replace")
        return "\n".join(line[:300] for line in text.splitlines()[-lines:])


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into `SystemExit`, which leaves every context in order."""

    def leave(signum: int, frame: object) -> None:
        raise SystemExit(128 + signum)

    signals = [signal.SIGTERM, signal.SIGHUP]
    # Under nohup, SIGHUP is ignored and stays so.
    signals = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, leave) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
