"""Placeholders cannot be forged, and come back once each."""

import re

import pytest

from sglang_lazy.surfaces import placeholders as module
from sglang_lazy.surfaces.documents import Document
from sglang_lazy.surfaces.placeholders import Placeholders

A, B = Document("first", "documents[0]"), Document("second", "documents[1]")


def test_segments_in_the_order_of_the_text() -> None:
    placeholders = Placeholders("")
    a, b = placeholders.put(A), placeholders.put(B)
    segments = placeholders.segments(f"{b}x{a}y")
    assert segments == [("second", True), ("x", False), ("first", True), ("y", False)]


def test_another_requests_placeholder_is_text() -> None:
    """Even one that a client has somehow seen."""
    seen = Placeholders("").put(A)
    placeholders = Placeholders(seen)
    (text, is_document), *_ = placeholders.segments(f"{seen}{placeholders.put(A)}x")
    assert (text, is_document) == (seen, False)


def test_placeholder_inside_a_document_is_text() -> None:
    """Documents are put in last: nothing in them is looked at again."""
    placeholders = Placeholders("")
    a = placeholders.put(A)
    b = placeholders.put(Document(a, "documents[1]"))
    assert placeholders.segments(f"{b}{a}x")[0] == (a, True)


def test_number_is_drawn_again_if_the_text_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["a" * 32, "b" * 32])
    monkeypatch.setattr(module.secrets, "token_hex", lambda _: next(drawn))
    assert "b" * 32 in Placeholders("the user wrote " + "a" * 12).put(A)


def test_numbers_are_long_and_differ() -> None:
    numbers = {re.match(r"([0-9a-f]{32}):0:", Placeholders("").put(A)) for _ in range(99)}
    assert None not in numbers
    assert len({match.group(1) for match in numbers if match}) == 99


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda a: "", r"documents\[0\] cannot be served: .* leaves it out"),
        (lambda a: a + a, r"documents\[0\] cannot be served: .* repeats it"),
        (lambda a: a.replace("  ", " "), r"documents\[0\] cannot be served: .* changes it"),
        (lambda a: a[:-3], r"documents\[0\] cannot be served: .* changes it"),
        (lambda a: a + a[:16], "cuts a document"),
        (lambda a: a[-16:] + a, "cuts a document"),
        (lambda a: a.replace(":0:", ":7:"), "chat template changes a document"),
        (lambda a: a.replace(":0:", ":\u0660:"), "chat template cuts a document"),
        (lambda a: a.replace(":0:", f":{'1' * 5000}:"), "chat template cuts a document"),
        (lambda a: a[:20], r"documents\[0\] cannot be served|cuts a document"),
    ],
    ids=[
        "left out",
        "repeated",
        "changed",
        "cut",
        "begun again",
        "ended before",
        "another",
        "digit",
        "digits",
        "begun",
    ],
)
def test_faults(change, fault: str) -> None:
    placeholders = Placeholders("")
    a, b = placeholders.put(A), placeholders.put(B)
    with pytest.raises(ValueError, match=fault):
        placeholders.segments(f"{change(a)}{b}x")
