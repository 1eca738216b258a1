"""Plots of the recorded figures for the documentation.

python benchmarks/plots.py   # benchmarks/results/*.json -> docs/images/bench_*.svg
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

from common import RESULTS

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LOWER_IS_BETTER = {
    "ttft_warm_reordered": ("first token, documents cached,\nany order / exact prefix hit", 1.0),
    "ttft_cold": ("first token, nothing cached", 0.9),
    "decode_step_shared": ("decoding step,\n48 requests over 40 documents", 0.45),
    "kernel_extend_64q_10k": ("kernel: 64 queries x 10.2k keys\n/ FA3 without offsets", 1.4),
    "kernel_decode_b64": ("kernel: decode, 64 distinct\n/ FA3 without offsets", 1.08),
    "kernel_decode_b64_shared": ("kernel: decode, 64 sharing\n/ FA3 without offsets", 0.22),
    "rotation_cost": ("kernel: offsets / no offsets", 1.03),
}
"""What a figure compares, and the ratio that was asked for."""
LEGS = {"stock": "C7", "block": "C1", "lazy": "C0"}


def load(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def plot_ratios(folder: Path) -> Any:
    """Each figure's time as a share of its baseline's, with the bar."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    names = list(LOWER_IS_BETTER)[::-1]
    for y, name in enumerate(names):
        ratio = load(folder, name)["ratio"]
        axes.barh(y, ratio, color="C0", height=0.6)
        axes.text(ratio + 0.02, y, f"{ratio:.2f}", va="center", fontsize="small")
        bar = LOWER_IS_BETTER[name][1]
        axes.plot([bar, bar], [y - 0.4, y + 0.4], color="C3", label="bar" if y == 0 else None)
    axes.axvline(1, color="0.6", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(names)), [LOWER_IS_BETTER[n][0] for n in names], fontsize="small")
    axes.set_xlabel("time / baseline of the same run (stock SGLang where not said otherwise)")
    axes.set_xlim(right=1.6)
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def plot_zipf(folder: Path) -> Any:
    """Requests per second and the time to the first token at each point, by system."""
    from matplotlib.figure import Figure

    points = load(folder, "zipf_points")
    places = sorted({(p["budget"], p["alpha"]) for p in points}, reverse=True)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = (("requests_per_second", "requests/s"), ("ttft_median", "first token, median, s"))
    for column, (metric, title) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), column + 1)
        for i, (leg, color) in enumerate(LEGS.items()):
            mine = {(p["budget"], p["alpha"]): p[metric] for p in points if p["leg"] == leg}
            xs = [x + (i - 1) * 0.27 for x, place in enumerate(places) if place in mine]
            ys = [mine[place] for place in places if place in mine]
            for x, y in zip(xs, ys, strict=True):
                axes.text(x, y, f"{y:.2g}", ha="center", va="bottom", fontsize="x-small")
            axes.bar(xs, ys, 0.25, color=color, label=leg)
        labels = [f"α {alpha}\nKV {budget:.0%}" for budget, alpha in places]
        axes.set_xticks(range(len(places)), labels, fontsize="small")
        axes.set_title(title, loc="left", fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
        if not column:
            axes.legend(frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=IMAGES)
    args = parser.parse_args()
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "benchmarks"  # equal figures make equal files
    plots = {
        "ratios": (plot_ratios, "Ratios to the baselines"),
        "zipf": (plot_zipf, "Zipf traffic"),
    }
    for name, (plot, title) in plots.items():
        text = io.StringIO()
        plot(args.results).savefig(text, format="svg", metadata={"Date": None, "Title": title})
        # What matplotlib has no word for: what the picture shows, for those who do not see it.
        described = f"</title>\n <desc>{plot.__doc__}</desc>"
        (args.out / f"bench_{name}.svg").write_text(
            text.getvalue().replace("</title>", described, 1)
        )


if __name__ == "__main__":
    main()
