"""The figures as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sglang_lazy.evaluate.modes import FULL
from sglang_lazy.evaluate.summary import Estimate, Figures, Reuse, Summary

Cell = Callable[[Figures], str]
NOTHING = "[dim]–[/]"
LEGEND = (
    "right: the answer contains the gold answer. NLL: of the gold answer, nats per token. KL: "
    "from full attention to the mode, at the answer's first token. reordered: the same "
    "documents in another order; same answer: as in the first order; right, change: from it. "
    "reused: prompt tokens from the cache. In brackets: 95% bootstrap intervals."
)


def table(summary: Summary) -> RenderableType:
    """What a terminal shows: metrics down, modes across."""
    parts: list[RenderableType] = [_metrics(summary)]
    if summary.kinds:
        parts.append(_kinds(summary))
    parts.append(Text(LEGEND, style="dim"))
    return Group(*parts)


def _grid(title: str, summary: Summary) -> Table:
    grid = Table(title=title, title_justify="left")
    grid.add_column("", min_width=16)
    for mode in summary.modes:
        grid.add_column(mode, justify="right")
    return grid


def _metrics(summary: Summary) -> Table:
    grid = _grid("All questions", summary)
    rows: list[tuple[str, Cell]] = [
        ("questions", _count),
        ("right, %", lambda f: _percent(f.metrics.get("contains"))),
        ("  less full", lambda f: _percent(f.difference.get("contains"), "+")),
        ("exact match, %", lambda f: _percent(f.metrics.get("exact_match"))),
        ("F1, %", lambda f: _percent(f.metrics.get("f1"))),
        ("  less full", lambda f: _percent(f.difference.get("f1"), "+")),
        ("NLL", lambda f: _number(f.metrics.get("nll"))),
        ("  less full", lambda f: _number(f.difference.get("nll"), "+")),
        ("KL", lambda f: _number(f.metrics.get("kl"))),
        ("reordered:", lambda f: ""),
        ("  same answer, %", lambda f: _percent(f.metrics.get("agreement"))),
        ("  right, change", lambda f: _percent(f.metrics.get("order_change"), "+")),
        ("prompt tokens", lambda f: _mean(f.metrics.get("prompt_tokens"))),
        ("reused", lambda f: _reuse(f.reuse)),
        ("  reordered", lambda f: _reuse(f.reordered)),
    ]
    for heading, cell in rows:
        grid.add_row(heading, *(cell(figures) for figures in summary.modes.values()))
    return grid


def _kinds(summary: Summary) -> Table:
    grid = _grid("Right answers by kind of question, %", summary)
    for kind, modes in summary.kinds.items():
        count = max(figures.n for figures in modes.values())
        cells = [_percent(figures.metrics.get("contains")) for figures in modes.values()]
        grid.add_row(f"{escape(kind)} [dim]({count})[/]", *cells)
        if FULL in modes:
            less = [_percent(figures.difference.get("contains"), "+") for figures in modes.values()]
            grid.add_row("  less full", *less, end_section=True)
    return grid


def _count(figures: Figures) -> str:
    failures = f"\n[red]{figures.failures} failed[/]" if figures.failures else ""
    return f"{figures.n}{failures}"


def _percent(estimate: Estimate | None, sign: str = "") -> str:
    return _cell(estimate, 100, f"{sign}.1f")


def _number(estimate: Estimate | None, sign: str = "") -> str:
    return _cell(estimate, 1, f"{sign}.3f")


def _cell(estimate: Estimate | None, scale: float, form: str) -> str:
    if estimate is None:
        return NOTHING
    value = f"{scale * estimate.value:{form}}"
    if estimate.interval is None:
        return value
    low, high = (f"{scale * end:{form}}" for end in estimate.interval)
    return f"{value}\n[dim]({low}, {high})[/]"


def _mean(estimate: Estimate | None) -> str:
    return NOTHING if estimate is None else f"{estimate.value:.0f}"


def _reuse(reuse: Reuse) -> str:
    return f"{100 * reuse.fraction:.1f}%" if reuse.prompt_tokens else NOTHING


def write_json(path: Path, summary: Summary, about: Mapping[str, Any]) -> None:
    """Write all figures, with what they depend on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {**about, **dataclasses.asdict(summary)}
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
