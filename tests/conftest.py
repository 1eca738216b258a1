"""Fixtures shared by all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    # Before anything imports Triton; servers do not inherit it (engines.py).
    os.environ["TRITON_INTERPRET"] = "1"

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from .engines import ServerSlot
from .oracle import Oracle
from .prepared import real_model

NUM_LAYERS = 6


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def real_model_dir() -> Path:
    return real_model()


@pytest.fixture(scope="session")
def tuned_model_dir(real_model_dir: Path) -> Path:
    """The same with the adapter of ``examples/block_finetune``: the demo's model."""
    return real_model("--tuned")


@pytest.fixture(scope="session")
def model_dir(real_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model's first layers: the same kind of attention in a fifth of the time."""
    path = tmp_path_factory.mktemp("model") / "shallow"
    config = AutoConfig.from_pretrained(real_model_dir, num_hidden_layers=NUM_LAYERS)
    model = AutoModelForCausalLM.from_pretrained(real_model_dir, config=config, dtype=torch.float32)
    model.save_pretrained(path)
    AutoTokenizer.from_pretrained(real_model_dir).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def oracle(model_dir: Path) -> Oracle:
    return Oracle(model_dir)


@pytest.fixture(scope="session")
def server_slot(model_dir: Path) -> Iterator[ServerSlot]:
    slot = ServerSlot(model_dir)
    yield slot
    slot.close()
