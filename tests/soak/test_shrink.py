"""The shrinker alone, with faults that depend on several items."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .replay import numbered
from .shrink import shrink


@given(st.integers(1, 60), st.sets(st.integers(0, 59), min_size=1, max_size=4), st.data())
def test_only_what_matters_is_left(size: int, cause: set[int], data: st.DataObject) -> None:
    cause = {i % size for i in cause}
    suspect = data.draw(st.sampled_from(sorted(cause)))
    small = shrink(range(size), suspect, cause.issubset, seconds=60)
    assert small == sorted(cause)


def test_what_does_not_happen_again() -> None:
    assert shrink(range(9), 8, lambda items: False, seconds=60) is None


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time(seconds: float) -> None:
    """The first list that reproduces, which is the whole if the suspect alone does not."""
    assert shrink(range(9), 8, lambda items: 8 in items, seconds) == [8]
    assert shrink(range(9), 8, {2, 8}.issubset, seconds) == list(range(9))


def test_numbers_and_references_go_together() -> None:
    steps = [
        {"id": 4, "body": {"input_ids": [1, {"answer_ids": 4}, {"answer_ids": 3}]}},
        {"id": 9, "body": {"content": {"answer_text": 4}}},
    ]
    assert numbered(steps) == [
        {"id": 0, "body": {"input_ids": [1, {"answer_ids": 0}, {"answer_ids": -1}]}},
        {"id": 1, "body": {"content": {"answer_text": 0}}},
    ]
