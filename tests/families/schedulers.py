"""A process that serves models with schedulers; see run_schedulers.py."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..engines import SMALL_FP32_CPU, STRICT_CHECKS

SETTINGS = {
    **SMALL_FP32_CPU,
    "max_total_tokens": 12000,
    "max_running_requests": 4,
    "chunked_prefill_size": 4096,
    "skip_tokenizer_init": True,
    "disable_overlap_schedule": True,
    "log_level": "error",
    "chunk_cache": "lazy",
}
SETTINGS.pop("sleep_on_idle")


class Schedulers:
    """Serves one model at a time, each in a process of its own."""

    def __init__(self, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("run_schedulers.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, **STRICT_CHECKS},
                cwd=log.parent,
            )

    def serve(self, model_dir: Path, requests: list[Any], **settings: Any) -> dict[str, Any]:
        """``answers`` to requests in turn, or the ``error`` with which the model was refused."""
        job = {
            "settings": {"model_path": str(model_dir), **SETTINGS, **settings},
            "requests": requests,
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                result = json.loads(line)
                assert "crash" not in result, result["crash"] + self.log_tail()
                return result
        raise AssertionError(f"the process ended:\n{self.log_tail()}")

    def log_tail(self, num_chars: int = 4000) -> str:
        return self._log.read_text(errors="replace")[-num_chars:]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
