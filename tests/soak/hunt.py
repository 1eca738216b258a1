"""From a report with faults to a small script."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from . import replay
from .arena import Arena
from .judge import Judge
from .run import WORKERS, Report, Step, run
from .script import write_script
from .shrink import shrink
from .verdict import Fault, Tally

NO_SERVER = ("no answer", "the server died", "the server hangs")


def same_kind(a: Fault, b: Fault) -> bool:
    return a.kind == b.kind or (a.kind in NO_SERVER and b.kind in NO_SERVER)


def hunt(
    arena: Arena, report: Report, judge: Judge, seconds: float, path: Path, server: str
) -> list[Step] | None:
    """Shrink a failing run by replaying parts of it, and write what is left as a script.

    Args:
        seconds: how long to try.
        path: of the script.
        server: the command that starts such a server, for the script.

    Returns:
        The steps of the script; None where the run cannot be repeated: then it is written
        as it was.
    """
    fault = report.faults[0]
    ids = [step["id"] for step in report.steps]
    suspects = [f.step_id for f in report.faults if f.step_id is not None]
    suspect = ids.index(suspects[0]) if suspects else len(ids) - 1
    workers = WORKERS
    found: list[Report] = []
    answered = [o["seconds"] for o in report.outcomes if o["error"] is None]
    timeout = min(max([5.0, *(3 * waited for waited in answered)]), replay.TIMEOUT)

    def reproduces(steps: list[Step]) -> bool:
        arena.reset()
        own_judge = replace(judge, tally=Tally())
        again = run(arena, replay.numbered(steps), own_judge, workers=workers, timeout=timeout)
        same = [f for f in again.faults if same_kind(f, fault)]
        if same:
            found[:] = [replace(again, faults=same)]
        return bool(same)

    small = shrink(report.steps, suspect, reproduces, seconds)
    if small is not None:
        calm: list[Step] = [{**step, "delay": 0} for step in small]
        workers = 1
        if reproduces(calm):
            small = calm
        else:
            workers = WORKERS
    steps = replay.numbered(report.steps if small is None else small)
    shown = found[0] if found else report
    path.parent.mkdir(parents=True, exist_ok=True)
    expected = _expected(shown, judge)
    write_script(path, steps, shown.faults[0], server, expected, judge.tolerance, workers)
    return None if small is None else steps


def _expected(report: Report, judge: Judge) -> dict[int, Any]:
    """What the oracle says of the tokens of answers that were wrong."""
    wrong = {fault.step_id for fault in report.faults}
    expected = {}
    for outcome in report.outcomes:
        given = replay.answers(outcome) if outcome["id"] in wrong else []
        if given and given[0].get("ids"):
            logprobs = judge.expected_logprobs(outcome, given[0])
            expected[outcome["id"]] = {"ids": given[0]["ids"], "logprobs": logprobs}
    return expected
