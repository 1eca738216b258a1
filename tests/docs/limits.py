"""The tables of docs/limits.md that follow from the code.

Run this module to bring them up to date.
"""

from __future__ import annotations

import re

from sglang_lazy.patches.tokenizer_manager import _UNSUPPORTED_FIELDS
from sglang_lazy.settings import _OWN_FIELDS, _REFUSALS, _UNSET, ATTENTION_BACKENDS, _flag

from .blocks import REPOSITORY

PAGE = REPOSITORY / "docs" / "limits.md"


def settings_table() -> list[str]:
    """A row for each setting that is refused: what is served of it, and why nothing else is."""
    rows = ["| setting | served with | why nothing else |", "|---|---|---|"]
    for refusal in _REFUSALS:
        served = [f"`{value}`" for value in refusal.served if value not in (None, False)]
        if refusal.served is _UNSET:
            served = ["off"]
        reason = refusal.reason
        if refusal.field == "attention_backend":
            assert set(refusal.served) == {None, *ATTENTION_BACKENDS}
            reason = "these can take the lazy path in front of them"
        rows.append(f"| `{_flag(refusal.field)}` | {', '.join(served)} | {reason} |")
    for field, served_values in _OWN_FIELDS.items():
        given = [f"`{value}`" for value in served_values if value is not None]
        rows.append(f"| `{_flag(field)}` | {', '.join(given) or 'unset'} | the plugin sets it |")
    return rows


def fields_table() -> list[str]:
    """A row for each request field that cannot be combined with documents."""
    return ["| request field |", "|---|", *(f"| `{name}` |" for name in _UNSUPPORTED_FIELDS)]


TABLES = {"settings": settings_table, "fields": fields_table}


def up_to_date(page: str) -> str:
    """The page with its tables as they should be, each behind its mark ``<!-- table: name -->``."""
    for name, table in TABLES.items():
        mark = f"<!-- table: {name} -->"
        assert page.count(mark) == 1, mark
        written = "\n".join([mark, "", *table(), ""])
        page = re.sub(rf"{re.escape(mark)}\n(\n|\|.*\n)*", lambda _, w=written: w + "\n", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(up_to_date(PAGE.read_text()))
