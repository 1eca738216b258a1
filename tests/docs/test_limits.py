"""docs/limits.md has everything that is refused."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

import pytest

from sglang_lazy import models
from sglang_lazy.attention import probe, rotary
from sglang_lazy.patches.tokenizer_manager import _UNSUPPORTED_FIELDS, MAX_DOCUMENTS

from ..e2e.test_features import WITHOUT_EFFECT
from .limits import PAGE, up_to_date

TEXT = " ".join(PAGE.read_text().split())


def test_tables_are_up_to_date() -> None:
    page = PAGE.read_text()
    assert page == up_to_date(page), "run: python -m tests.docs.limits"


def literals(node: ast.AST) -> list[str]:
    """The literal pieces of the strings in an expression, without those that say only ", "."""
    texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    pieces = (text.strip(" ,:()") for text in texts if isinstance(text, str))
    return [piece for piece in pieces if len(piece) > 3]


def reasons() -> Iterator[tuple[str, list[str]]]:
    """What functions that judge a model return, and the errors of those that raise."""
    judges = [(f.__name__, f) for f in models._CHECKS]
    judges += [("probe", probe._fault_of_layer), ("layer", rotary._check_layer)]
    judges += [("implementation", models.check_implementation)]
    for name, function in judges:
        for node in ast.walk(ast.parse(inspect.getsource(function))):
            if isinstance(node, ast.Return) and node.value is not None:
                found = literals(node.value)
            elif isinstance(node, ast.Raise) and node.exc is not None:
                found = literals(node.exc)
            else:
                continue
            if found:
                yield name, found


@pytest.mark.parametrize(("name", "pieces"), list(reasons()))
def test_reasons_to_refuse_a_model(name: str, pieces: list[str]) -> None:
    for piece in pieces:
        assert piece.removeprefix("--chunk-cache lazy does not support ") in TEXT


def test_number_of_documents() -> None:
    assert f"{MAX_DOCUMENTS} documents" in TEXT


def test_no_field_is_both_refused_and_served() -> None:
    """Where pages and tests of request features speak of a field."""
    features = PAGE.with_name("features.md").read_text().splitlines()
    for field in _UNSUPPORTED_FIELDS:
        rows = [line for line in features if f"`{field}`" in line]
        assert all("refused" in row for row in rows), field
        assert not any(field in fields for fields in WITHOUT_EFFECT.values()), field
