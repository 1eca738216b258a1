"""The HTTP client: what it makes of errors, pauses and silence."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from sglang_lazy.evaluate.client import RequestRefused
from sglang_lazy.evaluate.http_client import HttpClient
from sglang_lazy.http_client import ServerUnreachable

from ..engines import free_port

Handler = Callable[[web.Request], Awaitable[web.Response]]


def ask(handler: Handler | None, asks_model: bool = False, **options: Any) -> Any:
    """One request to a server with this handler; None: nobody listens."""

    async def talk() -> Any:
        app = web.Application()
        if handler:
            app.router.add_post("/generate", handler)
            app.router.add_get("/model_info", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        port = free_port()
        if handler:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        client = HttpClient(f"http://127.0.0.1:{port}/", retry_seconds=0.001, **options)
        try:
            if asks_model:
                return await client.model_info()
            return await client.generate({"input_ids": [1, 2]})
        finally:
            await client.close()
            await runner.cleanup()

    return asyncio.run(talk())


def test_fields_and_key_arrive() -> None:
    async def echo(request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization")
        return web.json_response({"fields": await request.json(), "key": authorization})

    assert ask(echo, api_key="k") == {"fields": {"input_ids": [1, 2]}, "key": "Bearer k"}


# What SGLang says of a field: with the whole request behind it.
VALIDATION = "1 validation error:\n  {'type': 'x', 'msg': 'too long', 'input': {'input_ids': [1]}}"


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "too long"}}',
        '{"error": "too long"}',
        "too long",
        json.dumps({"error": {"message": VALIDATION}}),
        json.dumps({"message": VALIDATION}),
    ],
)
def test_refusals_say_what_the_server_says(body: str) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=400, text=body)

    with pytest.raises(RequestRefused, match="^too long$"):
        ask(refuse)


@pytest.mark.parametrize("status, says", [(404, "model_info: too long"), (200, "names no model")])
def test_other_servers_are_told_by_their_address(status: int, says: str) -> None:
    async def other(request: web.Request) -> web.Response:
        return web.json_response({"error": "too long"}, status=status)

    with pytest.raises(RequestRefused, match=f"^http://127.*{says}"):
        ask(other, asks_model=True)


def test_a_busy_server_is_asked_again() -> None:
    calls = 0

    async def busy_twice(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.json_response({"calls": calls}, status=503 if calls < 3 else 200)

    assert ask(busy_twice) == {"calls": 3}


def test_nobody_answers() -> None:
    with pytest.raises(ServerUnreachable, match="does not answer"):
        ask(None)


def test_no_answer_in_time() -> None:
    async def sleep(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    with pytest.raises(ServerUnreachable, match="in time"):
        ask(sleep, timeout=0.05)
