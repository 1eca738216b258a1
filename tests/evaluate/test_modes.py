"""What each mode asks of the server."""

import pytest

from sglang_lazy.evaluate.modes import parse_mode


@pytest.mark.parametrize(
    "name, fields",
    [
        ("full", {}),
        ("no-documents", {}),
        ("none", {"chunk_context": "none", "chunk_link_tokens": 0}),
        ("preamble", {"chunk_context": "preamble", "chunk_link_tokens": 0}),
        ("link:8", {"chunk_context": "none", "chunk_link_tokens": 8}),
        ("sink+link:16", {"chunk_context": "sink", "chunk_link_tokens": 16}),
    ],
)
def test_fields(name: str, fields: dict[str, object]) -> None:
    mode = parse_mode(name)
    assert mode.fields(knows_link_tokens=True) == fields
    assert mode.marks_documents == bool(fields)
    assert mode.has_documents == (name != "no-documents")


def test_older_servers_are_not_asked_for_link_tokens() -> None:
    assert parse_mode("sink").fields(knows_link_tokens=False) == {"chunk_context": "sink"}


@pytest.mark.parametrize("name", ["", "Full", "link", "link:", "link:-1", "link:0", "full+link:2"])
def test_unknown_modes(name: str) -> None:
    with pytest.raises(ValueError, match=r"no mode|at least 1"):
        parse_mode(name)
