"""The figures as bars with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sglang_lazy.evaluate.summary import Estimate, Figures, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".pdf", ".png", ".svg")
PANELS = (
    ("contains", "right answers, %", 100),
    ("nll", "NLL of the gold answer, nats per token", 1),
    ("kl", "KL from full attention, nats", 1),
)


def write_plot(path: Path, summary: Summary) -> None:
    """Draw the metrics of all modes, and right answers by kind where there are kinds.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    rows = 2 if summary.kinds else 1
    figure = Figure(figsize=(12, 4 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, len(PANELS))
    for column, (metric, title, scale) in enumerate(PANELS):
        axes = figure.add_subplot(grid[0, column])
        _bars(axes, {"": summary.modes}, metric, scale)
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xticks(range(len(summary.modes)), list(summary.modes), rotation=30, ha="right")
    if summary.kinds:
        axes = figure.add_subplot(grid[1, :])
        _bars(axes, summary.kinds, "contains", 100)
        axes.set_title("right answers by kind of question, %", loc="left", fontsize="medium")
        axes.legend(frameon=False, fontsize="small", ncols=len(summary.modes))
        axes.set_ylim(top=115)  # room for the legend
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _bars(
    axes: Axes, groups: Mapping[str, Mapping[str, Figures]], metric: str, scale: float
) -> None:
    """One bar a mode, in groups; a single group has one place on the axis for each mode."""
    modes: Sequence[str] = list(next(iter(groups.values())))
    width = 0.8 if len(groups) == 1 and "" in groups else 0.8 / len(modes)
    for m, mode in enumerate(modes):
        for g, (group, by_mode) in enumerate(groups.items()):
            estimate = by_mode[mode].metrics.get(metric)
            x = m if group == "" else g + (m - (len(modes) - 1) / 2) * width
            axes.bar(
                x,
                scale * estimate.value if estimate else 0,
                width,
                color=f"C{m % 10}",
                yerr=_error(estimate, scale),
                capsize=3,
                ecolor="0.3",
                label=mode if g == 0 else None,
            )
    if "" not in groups:
        axes.set_xticks(range(len(groups)), list(groups), parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)


def _error(estimate: Estimate | None, scale: float) -> list[list[float]] | None:
    if estimate is None or estimate.interval is None:
        return None
    low, high = estimate.interval
    return [
        [max(scale * (estimate.value - low), 0.0)],
        [max(scale * (high - estimate.value), 0.0)],
    ]
