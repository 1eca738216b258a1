"""One run: traffic against a server while every answer is judged."""

import contextlib
import queue
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import requests
import torch

from . import replay
from .arena import Arena
from .judge import Judge
from .verdict import Fault, Tally

Step = dict[str, Any]
WORKERS = 8


@dataclass
class Report:
    """What a run found.

    Attributes:
        steps: those that were sent, in order.
        faults: none, if all is well.
        tally: figures of the answers.
        summary: what the scheduler says of its cache at the end.
    """

    steps: list[Step]
    outcomes: list[dict[str, Any]]
    faults: list[Fault]
    tally: Tally
    summary: Mapping[str, Any]

    def figures(self) -> dict[str, Any]:
        figures = asdict(self.tally)
        if self.summary:
            figures["evicted"] = self.summary["evicted"]
            figures["lookups"] = self.summary["lookups"]
        return figures


def run(
    arena: Arena,
    steps: Iterable[Step],
    judge: Judge,
    seconds: float | None = None,
    workers: int = WORKERS,
    timeout: float = replay.TIMEOUT,
) -> Report:
    """Play steps until the time is over, they end, or an answer is wrong or missing.

    Answers are judged while the traffic goes on, in this thread.
    """
    # Traffic waits for the judge where that is behind by so much.
    outcomes: queue.Queue[dict[str, Any] | None] = queue.Queue(maxsize=4 * workers)
    stop = threading.Event()
    played: list[Any] = []

    def noted() -> Iterable[Step]:
        for step in steps:
            judge.note_abort(step)
            yield step

    def play() -> None:
        try:
            played.extend(
                replay.play(arena.url, noted(), workers, seconds, outcomes.put, stop, timeout)
            )
        finally:
            outcomes.put(None)

    thread = threading.Thread(target=play)
    thread.start()
    # More threads than cores that are free wait for each other, and the server has the cores.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    faults: list[Fault] = []
    while (outcome := outcomes.get()) is not None:
        if not faults and (fault := judge.fault(outcome)):
            faults.append(fault)
            stop.set()
    thread.join()
    torch.set_num_threads(threads)
    summary: Mapping[str, Any] = {}
    if arena.server.has_died() or not faults:
        with contextlib.suppress(requests.RequestException):
            summary = arena.summary()
        faults = arena.faults_at_rest() + faults
    sent, results = played
    return Report(sent, results, faults, judge.tally, summary)
