"""One server for all of this folder, of a small random model."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from ..engines import ServerSlot, running_server
from ..oracle import CachingOracle
from .arena import Arena
from .judge import Judge
from .model import save_small_model
from .traffic import SERVER


@pytest.fixture(scope="session")
def soak_model_dir(real_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("soak")
    save_small_model(path, real_model_dir)
    return path


@pytest.fixture(scope="session")
def soak_tokenizer(soak_model_dir: Path) -> Any:
    return AutoTokenizer.from_pretrained(soak_model_dir)


@pytest.fixture(scope="package")
def arena(soak_model_dir: Path, server_slot: ServerSlot) -> Iterator[Arena]:
    server_slot.close()  # leave it the cores
    arena = Arena(lambda: running_server(soak_model_dir, **SERVER))
    yield arena
    arena.close()


@pytest.fixture
def judge(soak_model_dir: Path, soak_tokenizer: Any) -> Judge:
    return Judge(CachingOracle(soak_model_dir), soak_tokenizer, soak_tokenizer.bos_token_id)


@pytest.fixture
def seed() -> int:
    """Of the traffic: always the same, or $SOAK_SEED."""
    return int(os.environ.get("SOAK_SEED", 1))
