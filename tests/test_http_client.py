"""Retries of the command-line tools' client, against a scripted HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sglang_lazy.http_client import Client, RequestError, ServerUnreachable


class Script(BaseHTTPRequestHandler):
    """Answers with the next status of the script; 0 hangs up."""

    statuses: list[int] = []
    keys: list[str | None] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.append(self.headers.get("Authorization"))
        status = self.statuses.pop(0)
        if not status:
            self.close_connection = True
            return
        body = json.dumps({"error": {"message": f"said {status}"}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Script.keys.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Script) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_waits_longer_each_time(url: str) -> None:
    waits: list[float] = []
    Script.statuses = [503, 0, 429, 200]
    client = Client(url, api_key="k", sleep=waits.append)
    assert client.post("/x", {}) == {"error": {"message": "said 200"}}
    assert waits == [0.5, 1.0, 2.0]
    assert Script.keys == ["Bearer k"] * 4


def test_gives_up(url: str) -> None:
    Script.statuses = [503] * 3
    client = Client(url, retries=2, sleep=lambda seconds: None)
    with pytest.raises(ServerUnreachable, match="said 503"):
        client.post("/x", {})
    assert not Script.statuses


@pytest.mark.parametrize("status", [400, 401, 500])
def test_refusals_are_not_repeated(url: str, status: int) -> None:
    Script.statuses = [status]
    with pytest.raises(RequestError, match=f"{status}: said {status}") as caught:
        Client(url).post("/x", {})
    assert caught.value.status == status
