"""docs/models.md lists what the tests of this folder test."""

from .table import PAGE, up_to_date


def test_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert page == up_to_date(page), "run: python -m tests.families.table"
