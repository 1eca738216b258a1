"""One process that serves all families, one after another."""

from collections.abc import Iterator

import pytest

from ..engines import ServerSlot
from .schedulers import Schedulers


@pytest.fixture(scope="session")
def schedulers(
    server_slot: ServerSlot, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Schedulers]:
    server_slot.close()  # leave it the cores
    running = Schedulers(tmp_path_factory.mktemp("schedulers") / "log")
    yield running
    running.close()
