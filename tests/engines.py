"""One SGLang server at a time, on the CPU in fp32, with strict checks.

Servers are processes of their own, as users start them: one that dies fails the test
that asked it, not the test run.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

STRICT_CHECKS = {
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_CHECK_KV_PAGE_INVARIANTS": "1",
    "TRITON_INTERPRET": "0",  # kernel tests set it for this process
}
SMALL_FP32_CPU = {
    "device": "cpu",
    "dtype": "float32",
    "max_total_tokens": 20000,
    "max_running_requests": 16,
    "mem_fraction_static": 0.2,
    "disable_cuda_graph": True,
    "skip_server_warmup": True,
    "random_seed": 0,
    "sleep_on_idle": True,  # leave the cores to the oracle
    "watchdog_timeout": 120,
}
NO_DOCUMENTS = {"documents": 0, "hits": 0, "cached_tokens": 0}
START_SECONDS = 180
FLUSH_SECONDS = 20
REQUEST_SECONDS = 120


@dataclass(frozen=True)
class Completion:
    """One answer of `/generate` or of `Engine.generate`."""

    text: str
    token_ids: list[int]
    logprobs: list[float]
    top_logprobs: list[dict[int, float]]
    meta_info: Mapping[str, Any]

    @classmethod
    def of(cls, output: Mapping[str, Any]) -> "Completion":
        meta = output["meta_info"]
        tokens = meta.get("output_token_logprobs") or []
        return cls(
            text=output["text"],
            token_ids=[token for _, token, _ in tokens] or output.get("output_ids", []),
            logprobs=[logprob for logprob, _, _ in tokens],
            top_logprobs=[
                {token: logprob for logprob, token, _ in row}
                for row in meta.get("output_top_logprobs") or []
            ],
            meta_info=meta,
        )

    @property
    def cached_tokens(self) -> int:
        return self.meta_info["cached_tokens"]

    @property
    def chunk_cache(self) -> dict[str, int]:
        """`documents`, `hits` and `cached_tokens` (tokens of documents found)."""
        return self.meta_info.get("chunk_cache", NO_DOCUMENTS)


def command_line(config: Mapping[str, Any]) -> list[str]:
    """Server arguments as flags: `{"chunk_cache": "lazy"}` is `--chunk-cache lazy`."""
    flags: list[str] = []
    for name, value in config.items():
        flag = "--" + name.replace("_", "-")
        values = value if isinstance(value, list) else [value]
        flags += [flag] if value is True else [flag, *map(str, values)]
    return flags


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass(frozen=True)
class Server:
    """A running HTTP server."""

    url: str
    log: Path
    process: subprocess.Popen

    def post(self, path: str, **fields: Any) -> requests.Response:
        try:
            return requests.post(self.url + path, json=fields, timeout=REQUEST_SECONDS)
        except requests.RequestException as error:
            raise RuntimeError(f"{path} got no answer: {error}\n{self.log_tail()}") from None

    def generate(self, **fields: Any) -> Any:
        """The output of `/generate`: one object, or a list for a batch."""
        response = self.post("/generate", **fields)
        assert response.status_code == 200, response.text
        return response.json()

    def flush_cache(self) -> None:
        """Empty the cache, as soon as the scheduler has put away the last request."""
        self.post(f"/flush_cache?timeout={FLUSH_SECONDS}").raise_for_status()

    def has_died(self) -> bool:
        return self.process.poll() is not None

    def log_tail(self, num_chars: int = 8000) -> str:
        return self.log.read_text(errors="replace")[-num_chars:]

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.has_died():
                break
            with contextlib.suppress(requests.RequestException):
                if requests.get(self.url + "/health", timeout=10).status_code == 200:
                    return
            time.sleep(0.3)
        raise RuntimeError(f"the server did not become healthy:\n{self.log_tail()}")


@contextlib.contextmanager
def running_server(
    model_dir: Path, env: Mapping[str, str] | None = None, **config: Any
) -> Iterator[Server]:
    """A server as its users start it, in a process group of its own."""
    port = free_port()
    arguments = {"model_path": model_dir, "port": port, **SMALL_FP32_CPU, **config}
    command = [sys.executable, "-m", "sglang.launch_server", *command_line(arguments)]
    with tempfile.TemporaryDirectory() as work_dir:
        log = Path(work_dir) / "server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **STRICT_CHECKS, **(env or {})},
                cwd=work_dir,
                start_new_session=True,
            )
        server = Server(f"http://127.0.0.1:{port}", log, process)
        try:
            server.wait_until_healthy()
            yield server
            if server.has_died():
                print(f"the server died:\n{server.log_tail()}", file=sys.stderr)
        finally:
            kill_group(process)


def kill_group(process: subprocess.Popen) -> None:
    """End a process and all of its children."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)


class ServerSlot:
    """Holds one running server; asking for another configuration replaces it."""

    def __init__(self, model_dir: Path) -> None:
        self._model_dir = model_dir
        self._stack = contextlib.ExitStack()
        self._server: Server | None = None
        self._config: dict[str, Any] | None = None

    def get(self, **config: Any) -> Server:
        """The server with these arguments, its cache empty."""
        if self._server is None or config != self._config or self._server.has_died():
            self.close()
            self._server = self._stack.enter_context(running_server(self._model_dir, **config))
            self._config = config
        self._server.flush_cache()
        return self._server

    def close(self) -> None:
        self._server = None
        self._stack.close()
