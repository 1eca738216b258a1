"""Requests in the background, to be stopped at a chosen stage."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import requests

from ..engines import Completion
from .prompts import Prompt
from .subject import Subject, scored

SECONDS = 60
"""Until a request that got no answer counts as lost."""


def request_fields(
    subject: Subject,
    prompt: Prompt,
    rid: str | None = None,
    priority: int | None = None,
    **sampling: Any,
) -> dict[str, Any]:
    own = {"rid": rid, "priority": priority}
    given = {name: value for name, value in own.items() if value is not None}
    return {**subject.fields(prompt), **scored(**sampling), **given}


class Stream:
    """A request whose answer is streamed: so one sees when it is answered."""

    def __init__(self, subject: Subject, prompt: Prompt, **options: Any) -> None:
        self.subject, self.prompt = subject, prompt
        fields = {**request_fields(subject, prompt, **options), "stream": True}
        url = f"{subject.server.url}/generate"
        self._response = requests.post(url, json=fields, stream=True, timeout=SECONDS)
        self._outputs = self._read()
        self._last: dict[str, Any] | None = None

    def _read(self) -> Iterator[dict[str, Any]]:
        for line in self._response.iter_lines():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                output = json.loads(line.removeprefix(b"data: "))
                assert "meta_info" in output, output
                self._last = output
                yield output

    def wait_for(self, num_tokens: int = 1) -> "Stream":
        """Wait until so many tokens of the answer came."""
        for output in self._outputs:
            if output["meta_info"]["completion_tokens"] >= num_tokens:
                break
        return self

    def finish(self) -> Completion:
        """The answer, unchecked."""
        for _ in self._outputs:
            pass
        assert self._last is not None
        return Completion.of(self._last)

    def check(self) -> Completion:
        """The answer, equal to the oracle's."""
        completion = self.finish()
        assert completion.meta_info["finish_reason"]["type"] == "length"
        self.subject.check(self.prompt, completion)
        return completion

    def disconnect(self) -> None:
        self._response.close()


class Traffic:
    """Requests that run in the background."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def send(self, subject: Subject, prompt: Prompt, **options: Any) -> "Future[Any]":
        """A request; its completion, checked against the oracle unless it was cut short."""
        fields = request_fields(subject, prompt, **options)
        return self._pool.submit(self._ask, subject, prompt, fields)

    @staticmethod
    def _ask(subject: Subject, prompt: Prompt, fields: dict[str, Any]) -> Completion:
        url = f"{subject.server.url}/generate"
        response = requests.post(url, json=fields, timeout=SECONDS)
        assert response.status_code == 200, response.text
        completion = Completion.of(response.json())
        if completion.meta_info["finish_reason"]["type"] != "abort":
            subject.check(prompt, completion)
        return completion


@contextmanager
def traffic() -> Iterator[Traffic]:
    with ThreadPoolExecutor(max_workers=24) as pool:
        yield Traffic(pool)


def results(futures: "Sequence[Future[Completion]]") -> list[Completion]:
    return [future.result(timeout=2 * SECONDS) for future in futures]


def was_aborted(completion: Completion) -> bool:
    return completion.meta_info["finish_reason"]["type"] == "abort"


def cache_summary(subject: Subject) -> dict[str, Any]:
    """What the scheduler says of its cache between two passes."""
    response = requests.get(f"{subject.server.url}/chunk_cache", timeout=SECONDS)
    response.raise_for_status()
    summary: dict[str, Any] = response.json()["schedulers"][0]
    return summary


def wait_for_document_tokens(subject: Subject, num_tokens: int) -> None:
    """Wait until so many tokens of documents are cached; parts of documents count."""
    _wait_until(lambda: cache_summary(subject)["tokens"]["documents"] >= num_tokens)


def wait_for_queue(subject: Subject, num_waiting: int) -> None:
    """Wait until at least so many requests wait to be computed, while another one is."""
    _wait_until(lambda: sum(load["num_waiting_reqs"] for load in _loads(subject)) >= num_waiting)


def wait_until_idle(subject: Subject) -> None:
    """SGLang's scheduler needs a moment more than the last answer."""
    _wait_until(lambda: all(load["num_total_reqs"] == 0 for load in _loads(subject)))


def _loads(subject: Subject) -> list[dict[str, Any]]:
    response = requests.get(f"{subject.server.url}/v1/loads", timeout=SECONDS)
    response.raise_for_status()
    loads: list[dict[str, Any]] = response.json()["loads"]
    for load in loads:
        load["num_total_reqs"] = load["num_running_reqs"] + load["num_waiting_reqs"]
    return loads


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)
