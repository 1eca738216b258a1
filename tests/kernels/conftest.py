"""Kernel tests run on the GPU where there is one, else in Triton's interpreter."""

import os
import sys
from pathlib import Path

import pytest
import torch

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU and os.environ.get("TRITON_INTERPRET") != "1":
    if "triton" in sys.modules:
        raise pytest.UsageError(
            "Triton was imported before its interpreter was chosen; "
            "set TRITON_INTERPRET=1 to run the kernel tests without a GPU"
        )
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a GPU all of these are GPU tests: ``pytest -m gpu`` runs them there."""
    skip = pytest.mark.skip(reason="needs a CUDA GPU")
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        if HAS_GPU:
            item.add_marker(pytest.mark.gpu)
        elif item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if HAS_GPU else "cpu")
