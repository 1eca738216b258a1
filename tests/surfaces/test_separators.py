"""Plain text cut at separators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_lazy.surfaces.separators import split_text

T, D = False, True


@pytest.mark.parametrize(
    ("text", "dropped", "kept"),
    [
        ("a#b#c", [("a", T), ("b", D), ("c", T)], [("a", T), ("#b", D), ("#c", T)]),
        ("#b#c", [("b", D), ("c", T)], [("#b", D), ("#c", T)]),
        ("a#b", [("ab", T)], [("a#b", T)]),
        ("a##c", [("ac", T)], [("a##c", T)]),
        ("a##b#", [("a", T), ("b", D)], [("a#", T), ("#b", D), ("#", T)]),
        ("a#b#c#d", [("a", T), ("b", D), ("c", D), ("d", T)], None),
        ("#", [], [("#", T)]),
        ("a##", [("a", T)], [("a##", T)]),
        ("ab", None, None),
        ("", None, None),
    ],
)
def test_split(text: str, dropped: list | None, kept: list | None) -> None:
    assert split_text(text, ("#",), keep=False) == dropped
    if kept is not None or dropped is None:
        assert split_text(text, ("#",), keep=True) == kept


def test_several_separators() -> None:
    """Where one begins another the longer one is meant, in whatever order they were given."""
    for separators in (("#", "#!"), ("#!", "#")):
        segments = split_text("a#!b#c", separators, keep=False)
        assert segments == [("a", T), ("b", D), ("c", T)]
    assert split_text("a.*b.*c", (".*",), keep=False) == [("a", T), ("b", D), ("c", T)]


def test_no_separators() -> None:
    assert split_text("a#b#c", (), keep=False) is None


def test_many_separators_without_documents() -> None:
    """Text is joined once: were it copied at each separator, this would take minutes."""
    text = "#" * 1_000_000
    assert split_text(text, ("#",), keep=True) == [(text, T)]
    assert split_text(text + "b#c", ("#",), keep=True) == [
        (text[1:], T),
        ("#b", D),
        ("#c", T),
    ]


@given(st.text(alphabet="ab#!", max_size=12))
def test_nothing_but_separators_is_lost(text: str) -> None:
    for keep in (False, True):
        segments = split_text(text, ("#", "!!"), keep)
        if segments is None:
            assert "#" not in text and "!!" not in text
            continue
        expected = text if keep else text.replace("!!", "").replace("#", "")
        assert "".join(s.text for s in segments) == expected
        assert all(s.text for s in segments)
        pairs = zip(segments, segments[1:], strict=False)
        assert all(one.is_document or other.is_document for one, other in pairs)
