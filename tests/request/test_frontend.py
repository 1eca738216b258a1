"""``document()`` in the frontend language, up to the request that is sent."""

from __future__ import annotations

from typing import Any

import pytest
import sglang as sgl
from sglang.lang.backend import runtime_endpoint
from sglang.lang.backend.base_backend import BaseBackend
from sglang.lang.chat_template import get_chat_template

from sglang_lazy import document
from sglang_lazy.patches.runtime_endpoint import install, with_segments
from sglang_lazy.request import SegmentedPrompt, TextSegment

D = SegmentedPrompt([TextSegment("doc", True)])


class RecordingBackend(BaseBackend):
    """Answers every request with ``!``, and keeps the prompt's text."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def get_chat_template(self) -> Any:
        return get_chat_template("default")

    def generate(self, s: Any, sampling_params: Any) -> tuple[str, dict]:
        self.texts.append(s.text_)
        return "!", {}


def segments_sent(backend: RecordingBackend) -> list[Any]:
    return [with_segments({"text": text})["segments"] for text in backend.texts]


def test_document_in_a_program() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Read. "
        s += document("A") + document("B")
        s += "Q:" + sgl.gen("one")
        s += document("C") + " again" + sgl.gen("two")

    backend = RecordingBackend()
    state = program.run(backend=backend)
    state.sync()
    first = [{"text": "Read. "}, {"document": "A"}, {"document": "B"}, {"text": "Q:"}]
    then = [{"text": "Q:!"}, {"document": "C"}, {"text": " again"}]
    assert segments_sent(backend) == [first, [*first[:-1], *then]]
    assert state.text() == "Read. ABQ:!C again!"


def test_forks_keep_documents() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += document("A")
        forks = s.fork(2)
        for i, fork in enumerate(forks):
            fork += f" {i}" + sgl.gen("answer")
        forks.join()

    backend = RecordingBackend()
    program.run(backend=backend).sync()
    assert sorted(segments_sent(backend), key=str) == [
        [{"document": "A"}, {"text": f" {i}"}] for i in range(2)
    ]


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        (D + "q", [{"document": "doc"}, {"text": "q"}]),
        ("s" + D + "q", [{"text": "s"}, {"document": "doc"}, {"text": "q"}]),
        ([D + "q", "plain"], [[{"document": "doc"}, {"text": "q"}], "plain"]),
    ],
)
def test_documents_are_sent_as_segments(text: Any, segments: Any) -> None:
    data = {"text": text, "sampling_params": {"max_new_tokens": 5}, "stream": True}
    sent = with_segments(data)
    assert sent == {**{k: v for k, v in data.items() if k != "text"}, "segments": segments}
    assert data["text"] is text, "the caller's request was changed"


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"text": "plain"},
        {"text": ["a", "b"]},
        {"text": None, "input_ids": [1]},
        {"text": SegmentedPrompt([TextSegment("only text", False)])},
    ],
)
def test_other_requests_pass_unchanged(data: Any) -> None:
    assert with_segments(data) is data


def test_prefix_that_is_only_cached_may_end_in_a_document() -> None:
    """Forks and select first send what they share."""
    data = {"text": "s" + D, "sampling_params": {"max_new_tokens": 0}}
    assert with_segments(data)["segments"][-2:] == [{"document": "doc"}, {"text": "\n"}]
    data["sampling_params"] = {"max_new_tokens": 1}
    assert with_segments(data)["segments"][-1] == {"document": "doc"}


def test_installed_once_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(
        runtime_endpoint, "http_request", lambda url, json=None, **kwargs: sent.append(json)
    )
    install()
    hooked = runtime_endpoint.http_request
    install()
    assert runtime_endpoint.http_request is hooked
    hooked("url", json={"text": D + "q"})
    hooked("url")
    assert sent == [{"segments": [{"document": "doc"}, {"text": "q"}]}, None]


def test_refused_documents() -> None:
    with pytest.raises(TypeError, match="document\\(\\) takes a string; got int"):
        document(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="document\\(\\) got an empty string"):
        document("")
