"""All questions in all modes, a few at a time, mode by mode.

Full attention comes first, since the others are compared with it. Modes are not interleaved, so
each finds in the cache what its own questions brought; and what a mode with the same contexts left
there, where the pool holds all questions' documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from sglang_lazy.evaluate.client import RequestRefused
from sglang_lazy.evaluate.dataset import Example
from sglang_lazy.evaluate.measure import Examiner, Measurement
from sglang_lazy.evaluate.modes import FULL, Mode
from sglang_lazy.evaluate.results import ResultsFile
from sglang_lazy.http_client import ServerUnreachable

OnProgress = Callable[[Mode, int, int], None]
"""Called with a mode, how many of its questions are done, and how many of those have failed."""


def first_full(modes: Sequence[Mode]) -> list[Mode]:
    """The modes in the order in which they are measured."""
    return sorted(modes, key=lambda mode: mode.name != FULL)


async def run(
    examiner: Examiner,
    examples: Sequence[Example],
    modes: Sequence[Mode],
    results: ResultsFile,
    concurrency: int,
    on_progress: OnProgress,
) -> None:
    """Measure what the results lack.

    A question that fails is kept as failed, and the others go on.

    Raises:
        ServerUnreachable: nobody answers; what was measured so far is in the file.
    """
    for mode in first_full(modes):
        todo = [example for example in examples if _is_missing(results, example, mode)]
        done, failures = len(examples) - len(todo), 0
        on_progress(mode, done, failures)
        waiting = iter(todo)

        def keep(example: Example, outcome: Measurement | Exception, mode: Mode = mode) -> None:
            nonlocal done, failures
            results.add(example.key, mode.name, outcome)
            done += 1
            failures += isinstance(outcome, Exception)
            on_progress(mode, done, failures)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(todo))):
                    group.create_task(_work(examiner, mode, waiting, results, keep))
        except* ServerUnreachable as e:
            raise e.exceptions[0] from None


def _is_missing(results: ResultsFile, example: Example, mode: Mode) -> bool:
    found = results.measured.get((example.key, mode.name))
    # Measured before there was anything to compare it with.
    return found is None or (found.kl is None and _full(results, example) is not None)


def _full(results: ResultsFile, example: Example) -> Measurement | None:
    return results.measured.get((example.key, FULL))


async def _work(
    examiner: Examiner,
    mode: Mode,
    waiting: Iterator[Example],
    results: ResultsFile,
    keep: Callable[[Example, Measurement | Exception], None],
) -> None:
    for example in waiting:
        full = None if mode.name == FULL else _full(results, example)
        outcome: Measurement | Exception
        try:
            outcome = await examiner.measure(example, mode, full)
        except ServerUnreachable:
            raise
        except (RequestRefused, ValueError, KeyError, TypeError, IndexError) as e:
            # The last three: an answer that lacks what was asked for.
            outcome = e
        keep(example, outcome)
