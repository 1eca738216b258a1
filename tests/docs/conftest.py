"""One server for all code blocks, and one place for the files that they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..engines import Server, ServerSlot

TEXTS = ("\n\nThe mill at Orrin was built in 1790.", "\n\nThe ferry at Lund runs on Sundays.")


@pytest.fixture(scope="module")
def server(server_slot: ServerSlot) -> Server:
    """A server with everything that pages ask of one."""
    return server_slot.get(chunk_cache="lazy", enable_metrics=True, chunk_separator="<|document|>")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``docs.jsonl`` and ``notes/``."""
    path = tmp_path_factory.mktemp("docs")
    (path / "docs.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    (path / "notes").mkdir()
    for i, text in enumerate(TEXTS):
        (path / "notes" / f"{i}.txt").write_text(text)
    return path
