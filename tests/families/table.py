"""The tables of docs/models.md, from the list that the tests go through.

`python -m tests.families.table` brings the page up to date.
"""

from pathlib import Path

from .shapes import REFUSED, SERVED, Family

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def rows(families: tuple[Family, ...], about: str) -> list[str]:
    head = [f"| model | `model_type` | {about} |", "|---|---|---|"]
    return [*head, *(f"| {f.name} | `{f.model_type}` | {f.about} |" for f in families)]


def sections() -> dict[str, list[str]]:
    """The tables by the heading under which they stand."""
    return {
        "## Served": rows(SERVED, "what is particular"),
        "## Refused": rows(REFUSED, "the reason given"),
    }


def up_to_date(page: str) -> str:
    """The page with its tables as they should be."""
    lines: list[str] = []
    tables = sections()
    pending: list[str] = []
    in_table = False
    for line in page.splitlines():
        pending = tables.get(line, pending)
        is_row = line.startswith("|")
        if is_row and not in_table:
            lines += pending
        if not is_row:
            lines.append(line)
        in_table = is_row
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(up_to_date(PAGE.read_text()))
