"""The file of results, one line a question and mode, written as they come.

    {"settings": {...}}
    {"example": "<key>", "mode": "sink", "result": {...}}
    {"example": "<key>", "mode": "sink", "error": "why it failed"}

A run that is started again reads the file and asks only what is missing or has failed. The
first line holds what the figures depend on; a file with other settings is not continued.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sglang_lazy.evaluate.measure import Measurement

FORMAT = 1
"""To be raised when a change makes older results incomparable."""

_FIRST = b'{"settings": '
"""What every file of results begins with."""


class ResultsError(ValueError):
    """The file cannot be continued."""


class ResultsFile:
    """Results of one evaluation, in memory and in a file.

    Attributes:
        measured: by (example's key, mode's name).
        failed: why the latest attempt failed, by the same.

    Raises:
        ResultsError: the file belongs to another evaluation, or is no such file.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.measured: dict[tuple[str, str], Measurement] = {}
        self.failed: dict[tuple[str, str], str] = {}
        settings = json.loads(json.dumps({"format": FORMAT, **settings}))
        path.parent.mkdir(parents=True, exist_ok=True)
        good = self._load(settings) if path.exists() else 0
        self._file = path.open("ab")
        # A line that was cut off when a run was killed.
        self._file.truncate(good)
        if not good:
            self._append({"settings": settings})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, example: str, mode: str, outcome: Measurement | Exception) -> None:
        """Keep a result, or why there is none."""
        line: dict[str, Any] = {"example": example, "mode": mode}
        if isinstance(outcome, Measurement):
            self._append({**line, "result": outcome.to_json()})
        else:
            self._append({**line, "error": str(outcome) or type(outcome).__name__})
        self._keep(example, mode, outcome)

    def _keep(self, example: str, mode: str, outcome: Measurement | Exception) -> None:
        key = example, mode
        if isinstance(outcome, Measurement):
            self.measured[key] = outcome
            self.failed.pop(key, None)
        else:
            self.failed[key] = str(outcome) or type(outcome).__name__
            self.measured.pop(key, None)

    def _append(self, data: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(data, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _load(self, settings: Mapping[str, Any]) -> int:
        """Read the file; returns how many of its bytes are whole lines."""
        *lines, rest = self.path.read_bytes().split(b"\n")
        if not lines:
            if not (rest.startswith(_FIRST) or _FIRST.startswith(rest)):
                raise ResultsError(f"{self.path} is no file of results")
            return 0
        try:
            self._check(json.loads(lines[0])["settings"], settings)
            for line in lines[1:]:
                data = json.loads(line)
                outcome: Measurement | Exception = (
                    Measurement.of_json(data["result"])
                    if "result" in data
                    else RuntimeError(data["error"])
                )
                self._keep(data["example"], data["mode"], outcome)
        except ResultsError:
            raise
        except (ValueError, KeyError, TypeError) as e:
            raise ResultsError(f"{self.path} is no file of results: {e!r}") from None
        return sum(len(line) + 1 for line in lines)

    def _check(self, found: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        differing = [
            f"{name} (there {found.get(name)!r}, now {settings.get(name)!r})"
            for name in sorted({*found, *settings})
            if found.get(name) != settings.get(name)
        ]
        if differing:
            raise ResultsError(
                f"{self.path} holds results of other settings: {'; '.join(differing)}. "
                "Name another file with --results, or remove this one."
            )
