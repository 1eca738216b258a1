"""Draw training logs: the losses, and the held-out questions that were looked at meanwhile.

    python plot_log.py adapter/log-*.jsonl log.png

Several logs are drawn as one training: each continued where the one before had ended.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from questions import KINDS


def joined(logs: list[Path]) -> list[dict[str, Any]]:
    """The lines of all logs, with steps counted from the beginning of the first."""
    lines: list[dict[str, Any]] = []
    before = 0
    for log in logs:
        found = [json.loads(line) for line in log.read_text().splitlines()]
        lines += [{**x, "step": before + x["step"]} for x in found if "step" in x]
        before = lines[-1]["step"] if lines else 0
    return lines


def draw(lines: list[dict[str, Any]], output: Path) -> None:
    """Left: losses by step. Right: share of looks right to the token, mode ``none``."""
    from matplotlib.figure import Figure

    steps = [line for line in lines if line["event"] == "step"]
    looks = [line for line in lines if line["event"] == "look" and line["mode"] == "none"]
    figure = Figure(figsize=(9, 3.4), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, label in (("loss", "answers (cross entropy)"), ("kl", "ordinary text (KL)")):
        left.plot([s["step"] for s in steps], [s[name] for s in steps], label=label)
    left.set(yscale="log", xlabel="step", ylabel="nats per token", title="training loss")
    for kind in KINDS:
        right.plot([x["step"] for x in looks], [x.get(kind) for x in looks], ".-", label=kind)
    right.set(xlabel="step", ylabel="%", ylim=(0, 101), title="held-out answers, mode none")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    draw(joined(arguments.logs), arguments.output)


if __name__ == "__main__":
    main()
