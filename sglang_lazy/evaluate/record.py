"""One JSON a mode for a project's records: the share of right answers beside full attention.

Values are in points (percent). The keys are those of this project's benchmarks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sglang_lazy import provenance
from sglang_lazy.evaluate.modes import FULL
from sglang_lazy.evaluate.summary import Estimate, Figures, Summary

METRICS = {
    "contains": "questions whose answer contains the gold answer",
    "exact_match": "questions whose answer is the gold answer (SQuAD's normal form)",
    "f1": "F1 of answers (SQuAD's)",
}


def write_records(
    summary: Summary,
    folder: Path,
    *,
    gpu: str,
    command: str,
    commit: str | None = None,
    metric: str = "contains",
    **more: Any,
) -> list[str]:
    """Write ``quality_<mode>.json`` for each mode but full attention.

    Args:
        gpu: what the model ran on.
        command: how to get the figures again.
        commit: of the code that was measured; found out where None.
        metric: one of ``METRICS``.
        more: further keys, such as the model and the questions.

    Returns:
        The figures' names.

    Raises:
        ValueError: there is nothing to compare with.
    """
    if FULL not in summary.modes:
        raise ValueError(f"records compare with full attention: measure the mode {FULL!r} too")
    origin = {
        "gpu": gpu,
        "versions": provenance.versions(),
        "commit": commit or provenance.commit(__file__),
        "command": command,
    }
    names = []
    for mode, figures in summary.modes.items():
        if mode == FULL or not figures.n:
            continue
        name = "quality_" + re.sub(r"\W+", "_", mode.replace(":", ""))
        result = {
            "figure": name,
            **_points(metric, figures, summary.modes[FULL]),
            "unit": "points",
            **origin,
            "meaning": f"{METRICS[metric]}; baseline: full attention",
            "mode": mode,
            "failures": figures.failures,
            "kinds": {
                kind: _points(metric, modes[mode], modes[FULL])
                for kind, modes in summary.kinds.items()
                if modes[mode].n
            },
            **more,
        }
        provenance.write_result(folder, result)
        names.append(name)
    return names


def _points(metric: str, figures: Figures, full: Figures) -> dict[str, Any]:
    value, baseline = figures.metrics[metric], full.metrics.get(metric)
    difference = figures.difference.get(metric)
    return {
        "value": _points_of(value.value),
        "baseline": _points_of(baseline.value) if baseline else None,
        "n": value.n,
        "interval": _interval(value),
        "difference": _points_of(difference.value) if difference else None,
        "difference_interval": _interval(difference) if difference else None,
    }


def _interval(estimate: Estimate) -> list[float] | None:
    return [_points_of(end) for end in estimate.interval] if estimate.interval else None


def _points_of(share: float) -> float:
    return round(100 * share, 4)
