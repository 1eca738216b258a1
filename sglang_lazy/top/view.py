"""A sample as a screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sglang_lazy.observe.lookups import RESULTS
from sglang_lazy.top.sample import LOOKUPS, MATCH_SECONDS, Sample, quantile

BAR_WIDTH = 72
HASH_DIGITS = 16
COLORS = {"documents": "green", "other": "cyan", "in use": "yellow", "free": "bright_black"}


def screen(sample: Sample, before: Sample | None, url: str, documents: int) -> RenderableType:
    """The whole screen.

    Args:
        sample: the latest reading.
        before: an earlier one, for rates; None at first.
        url: the server's.
        documents: how many documents to list.
    """
    title = (
        f"{escape(url)}  {escape(sample.model)}  --chunk-context {sample.cache['chunk_context']}"
    )
    return Group(
        f"[bold]{title}[/]",
        Panel(_occupancy(sample), title="KV cache", title_align="left"),
        Panel(_lookups(sample, before), title="Documents asked for", title_align="left"),
        Panel(_server(sample, before), title="Server", title_align="left"),
        _hottest(sample, documents),
    )


def _occupancy(sample: Sample) -> RenderableType:
    lines = []
    for scheduler in sample.schedulers:
        tokens = scheduler["tokens"]
        capacity = tokens["capacity"]
        cached = capacity - tokens["available"]
        # Documents may be in use or not; what is in use besides is shown apart.
        other = max(tokens["evictable"] - tokens["documents"], 0)
        parts = {
            "documents": tokens["documents"],
            "other": other,
            "in use": max(cached - tokens["documents"] - other, 0),
            "free": tokens["available"],
        }
        rank = f"rank {scheduler['dp_rank']}: " if len(sample.schedulers) > 1 else ""
        documents = f"{scheduler['resident_documents']:,} documents"
        lines += [
            Text(f"{rank}{documents}; {capacity:,} tokens of KV"),
            _bar(parts, capacity),
            Text("  ").join(
                Text(f"{name} {count:,} ({count / capacity:.0%})", COLORS[name])
                for name, count in parts.items()
            ),
        ]
    return Group(*lines)


def _bar(parts: Mapping[str, int], capacity: int) -> Text:
    bar, shown, end = Text(), 0, 0
    for name, count in parts.items():
        end += count
        width = round(BAR_WIDTH * end / capacity) - shown
        bar.append("░" * width if name == "free" else "█" * width, COLORS[name])
        shown += width
    return bar


def _lookups(sample: Sample, before: Sample | None) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in (*RESULTS, "found", "evicted"):
        table.add_column(name, justify="right")
    for kind in LOOKUPS:
        counts, evicted = sample.lookups(kind), sample.evicted(kind)
        _add_counts(table, f"{kind} since start", counts, evicted)
        if before is not None:
            recent = {r: counts[r] - n for r, n in before.lookups(kind).items()}
            seconds = sample.seconds - before.seconds
            label = f"{kind}, last {seconds:.0f} s"
            _add_counts(table, label, recent, evicted - before.evicted(kind))
    return table


def _add_counts(table: Table, label: str, counts: Mapping[str, int], evicted: int) -> None:
    total = sum(counts.values())
    # Of documents, those found whole; of tokens, all that were taken from the cache.
    found = counts["hit"] + (counts["partial"] if label.startswith("tokens") else 0)
    share = f"{found / total:.0%}" if total else "-"
    table.add_row(label, *(f"{counts[result]:,}" for result in RESULTS), share, f"{evicted:,}")


def _server(sample: Sample, before: Sample | None) -> RenderableType:
    metrics = sample.metrics
    if not metrics:
        return "[dim]start the server with --enable-metrics to see requests and times here[/]"
    count, total = (metrics.get(f"{MATCH_SECONDS}_{part}", 0) for part in ("count", "sum"))
    recent = (
        {}
        if before is None
        else {b: n - before.match_buckets.get(b, 0) for b, n in sample.match_buckets.items()}
    )
    # What is rare has no recent quantile.
    p99 = quantile(recent, 0.99) or quantile(sample.match_buckets, 0.99)
    generated = metrics.get("gen_throughput", 0)
    mean = f"{1e3 * total / count:.2f} ms" if count else "-"
    bound = "-" if p99 is None else f"{1e3 * p99:g} ms"
    return (
        f"{metrics.get('num_running_reqs', 0):,.0f} running, "
        f"{metrics.get('num_queue_reqs', 0):,.0f} queued, {generated:,.0f} tokens/s generated\n"
        f"time to match: mean {mean}, 99% below {bound}"
    )


def _hottest(sample: Sample, documents: int) -> Table:
    several = len(sample.schedulers) > 1
    table = Table(title="Hottest documents", title_justify="left", expand=False)
    for name in ("hash", "tokens", "hits", "age", "idle", "context", "namespace"):
        table.add_column(
            name, justify="right" if name in ("tokens", "hits") else "left", no_wrap=True
        )
    if several:
        table.add_column("rank", justify="right")
    for rank, document in sample.hottest(documents):
        table.add_row(*_row(document), *([str(rank)] if several else []))
    return table


def _row(document: Mapping[str, Any]) -> list[str]:
    return [
        document["hash"][:HASH_DIGITS],
        f"{document['tokens']:,}",
        f"{document['hits']:,}",
        duration(document["age_seconds"]),
        duration(document["idle_seconds"]),
        document["chunk_context"],
        document["namespace"] or "",
    ]


def duration(seconds: float) -> str:
    """A time span in its largest unit: ``42s``, ``7m``, ``3h``, ``12d``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"
