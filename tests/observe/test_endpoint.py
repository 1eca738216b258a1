"""``GET /chunk_cache`` in front of several schedulers, and who may ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sglang.srt.managers.communicator import FanOutCommunicator
from sglang.srt.utils.auth import add_api_key_middleware

from sglang_lazy import compat
from sglang_lazy.config import SERVER_ARGS_ATTRIBUTE, LazyConfig
from sglang_lazy.observe.endpoint import add_route


@pytest.fixture
def client() -> TestClient:
    """Two schedulers, of which the second answers first; an API key and an administrator's."""
    asked: list[int | None] = []

    def send(request: Any) -> None:
        asked.append(compat.summary_limit(request))
        for rank in (1, 0):
            answers.append(compat.summary_reply({"dp_rank": rank, "limit": asked[-1]}))

    answers: list[Any] = []
    ask = FanOutCommunicator(send, fan_out=2)

    async def communicator(request: Any) -> Any:
        import asyncio

        waiting = asyncio.ensure_future(ask(request))
        await asyncio.sleep(0)
        for answer in answers:
            ask.handle_recv(answer)
        answers.clear()
        return await waiting

    manager = SimpleNamespace(
        server_args=SimpleNamespace(**{SERVER_ARGS_ATTRIBUTE: LazyConfig("lazy", "none")}),
        auto_create_handle_loop=lambda: None,
        get_internal_state_communicator=communicator,
    )
    app = FastAPI()
    for _ in range(2):  # a second server in one process adds nothing
        add_route(app, manager)
    add_api_key_middleware(app, api_key="user", admin_api_key="admin")
    return TestClient(app)


def test_every_scheduler_answers(client: TestClient) -> None:
    response = client.get("/chunk_cache?documents=7", headers={"Authorization": "Bearer admin"})
    assert response.json() == {
        "chunk_context": "none",
        "schedulers": [{"dp_rank": 0, "limit": 7}, {"dp_rank": 1, "limit": 7}],
    }


@pytest.mark.parametrize("documents", ["9" * 5000, "101", "-1", "1.5", "²", ""])
def test_what_is_no_small_number_is_refused(client: TestClient, documents: str) -> None:
    """Thousands of digits too, which Python does not read."""
    headers = {"Authorization": "Bearer admin"}
    response = client.get("/chunk_cache", params={"documents": documents}, headers=headers)
    assert response.status_code == 400
    assert "documents must be a number from 0 to 100" in response.text


@pytest.mark.parametrize("key", [None, "user"])
def test_it_tells_of_all_tenants_so_only_the_administrator_may_ask(
    client: TestClient, key: str | None
) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    assert client.get("/chunk_cache", headers=headers).status_code == 401


def test_internal_state_is_left_alone() -> None:
    from sglang.srt.managers.io_struct import GetInternalStateReq

    assert compat.summary_limit(GetInternalStateReq()) is None
    assert compat.summary_limit(GetInternalStateReq(rid="abc")) is None
