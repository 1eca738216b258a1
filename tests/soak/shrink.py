"""Make a failing schedule small: delta debugging over its steps (Zeller's ddmin)."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(
    items: Sequence[T], suspect: int, reproduces: Callable[[list[T]], bool], seconds: float
) -> list[T] | None:
    """A small sublist that still `reproduces`.

    The suspect is tried alone, then with what followed it and 1, 2, 4, ... items before it.
    As much as possible of the first of these that reproduces is left out. Where the time is
    over, the smallest list so far is given.

    Returns:
        None where not even the whole list reproduces.
    """
    deadline = time.monotonic() + seconds

    def is_over() -> bool:
        return time.monotonic() > deadline

    window, before = [items[suspect]], 0
    while not reproduces(window):
        if len(window) == len(items):
            return None
        before = len(items) if is_over() else max(2 * before, 1)
        window = list(items[max(suspect - before, 0) :])
    return ddmin(window, reproduces, is_over)


def ddmin(
    items: list[T], reproduces: Callable[[list[T]], bool], is_over: Callable[[], bool]
) -> list[T]:
    """Leave out as many chunks as possible, of half the items, a quarter, ..., one."""
    chunks = 2
    while len(items) > 1 and not is_over():
        size = -(-len(items) // chunks)
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if rest and not is_over() and reproduces(rest):
                items, chunks = rest, max(chunks - 1, 2)
                break
        else:
            if size == 1:
                break
            chunks = min(2 * chunks, len(items))
    return items
