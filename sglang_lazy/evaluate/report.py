"""The figures as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sglang_lazy.evaluate.modes import FULL
from sglang_lazy.evaluate.summary import Estimate, Reuse, Summary

Row = tuple[str, str, int]
"""A metric, its heading, and digits; negative digits: in percent."""

PERCENT = -1
COLUMNS: tuple[Row, ...] = (
    ("contains", "right", PERCENT),
    ("exact_match", "exact", PERCENT),
    ("f1", "F1", PERCENT),
    ("nll", "NLL", 2),
    ("kl", "KL", 3),
    ("agreement", "same if\nreordered", PERCENT),
    ("order_change", "right if\nreordered", PERCENT),
)
LEGEND = (
    "right: the answer contains the gold answer. NLL: of the gold answer, nats per token. "
    "KL: of its first token, from full attention. same if reordered: same answer to the "
    "documents in another order; right if reordered: change of 'right'. reused: prompt tokens "
    "from the cache. In brackets: 95% bootstrap interval."
)


def table(summary: Summary) -> RenderableType:
    """What a terminal shows."""
    parts: list[RenderableType] = [_modes(summary)]
    if summary.kinds:
        parts.append(_kinds(summary))
    parts.append(Text(LEGEND, style="dim"))
    return Group(*parts)


def _modes(summary: Summary) -> Table:
    grid = Table(title="All questions", title_justify="left")
    grid.add_column("mode", no_wrap=True)
    grid.add_column("n", justify="right")
    for _, heading, _ in COLUMNS:
        grid.add_column(heading, justify="right")
    grid.add_column("reused", justify="right")
    grid.add_column("reused if\nreordered", justify="right")
    for mode, figures in summary.modes.items():
        failures = f"\n[red]{figures.failures} failed[/]" if figures.failures else ""
        grid.add_row(
            mode,
            f"{figures.n}{failures}",
            *(_cell(figures.metrics.get(name), digits) for name, _, digits in COLUMNS),
            _reuse(figures.reuse),
            _reuse(figures.reordered),
        )
    return grid


def _kinds(summary: Summary) -> Table:
    grid = Table(title="Right answers by kind of question", title_justify="left")
    grid.add_column("kind")
    grid.add_column("n", justify="right")
    for mode in summary.modes:
        grid.add_column(mode, justify="right")
        if mode != FULL and FULL in summary.modes:
            grid.add_column("less\nfull", justify="right")
    for kind, modes in summary.kinds.items():
        cells = []
        for mode, figures in modes.items():
            cells.append(_cell(figures.metrics.get("contains"), PERCENT))
            if mode != FULL and FULL in modes:
                cells.append(_cell(figures.difference.get("contains"), PERCENT, signed=True))
        grid.add_row(kind, str(max(figures.n for figures in modes.values())), *cells)
    return grid


def _cell(estimate: Estimate | None, digits: int, signed: bool = False) -> str:
    if estimate is None:
        return "[dim]–[/]"
    scale, digits = (100, 1) if digits == PERCENT else (1, digits)
    sign = "+" if signed else ""
    value = f"{scale * estimate.value:{sign}.{digits}f}"
    if estimate.interval is None:
        return value
    low, high = (f"{scale * end:{sign}.{digits}f}" for end in estimate.interval)
    return f"{value}\n[dim]({low}, {high})[/]"


def _reuse(reuse: Reuse) -> str:
    return f"{100 * reuse.fraction:.1f}%" if reuse.prompt_tokens else "[dim]–[/]"


def write_json(path: Path, summary: Summary, about: Mapping[str, Any]) -> None:
    """Write all figures, with what they depend on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {**about, **dataclasses.asdict(summary)}
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
