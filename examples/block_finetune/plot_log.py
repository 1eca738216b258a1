"""Draw a training log: the losses, and the held-out questions that were looked at meanwhile.

python plot_log.py adapter/log.jsonl log.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from questions import KINDS


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
    parser.add_argument("log", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    draw([json.loads(line) for line in arguments.log.read_text().splitlines()], arguments.output)


if __name__ == "__main__":
    main()
