"""What the live view makes of two readings."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from sglang_lazy.top.sample import Sample, parse_metrics, quantile
from sglang_lazy.top.view import duration, screen

METRICS = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",dp_rank="0"} 3.0
sglang:num_running_reqs{model_name="m",dp_rank="1"} 4.0
# TYPE sglang:chunk_cache_match_seconds histogram
sglang:chunk_cache_match_seconds_sum{model_name="m",dp_rank="0"} 0.2
sglang:chunk_cache_match_seconds_bucket{model_name="m",dp_rank="0",le="0.001"} 97.0
sglang:chunk_cache_match_seconds_bucket{model_name="m",dp_rank="0",le="0.005"} 100.0
sglang:chunk_cache_match_seconds_bucket{model_name="m",dp_rank="0",le="+Inf"} 100.0
sglang:chunk_cache_match_seconds_count{model_name="m",dp_rank="0"} 100.0
"""


def scheduler(rank: int, hits: int) -> dict[str, Any]:
    return {
        "dp_rank": rank,
        "tokens": {
            "capacity": 1000, "available": 400, "evictable": 500, "protected": 100,
            "documents": 300,
        },
        "resident_documents": 7,
        "evicted": {"documents": 1, "tokens": 50},
        "lookups": {
            "documents": {"hit": hits, "partial": 1, "miss": 2},
            "tokens": {"hit": 10 * hits, "partial": 5, "miss": 25},
        },
        "hottest": [
            {
                "hash": f"{rank}{hits}" + 30 * "a", "tokens": 1234, "hits": hits,
                "age_seconds": 7300, "idle_seconds": 59, "chunk_context": "sink",
                "namespace": None,
            }
        ],
    }  # fmt: skip


def reading(seconds: float, hits: int, metrics: str = METRICS) -> Sample:
    cache = {"chunk_context": "sink", "schedulers": [scheduler(0, hits), scheduler(1, 20)]}
    return Sample(seconds, cache, *parse_metrics(metrics))


def shown(sample: Sample, before: Sample | None = None) -> str:
    console = Console(width=90, color_system=None)
    with console.capture() as captured:
        console.print(screen(sample, before, "http://server", 5))
    return captured.get()


def row(text: str, label: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if label in line)
    return line.split(label)[1].strip(" │").split()


def test_totals_and_what_has_changed() -> None:
    text = shown(reading(14.0, 30), reading(10.0, 10))
    assert row(text, "documents since start") == ["50", "2", "4", "89%", "2"]
    assert row(text, "documents, last 4 s") == ["20", "0", "0", "100%", "0"]
    assert row(text, "tokens since start") == ["500", "10", "50", "91%", "100"]
    assert "7 running" in text and "mean 2.00 ms, 99% below 5 ms" in text
    assert "documents 300 (30%)  other 200 (20%)  in use 100 (10%)  free 400 (40%)" in text


def test_hottest_of_all_schedulers_first() -> None:
    text = shown(reading(1.0, 30))
    assert text.index("030aaaa") < text.index("120aaaa")
    assert "2h" in text and "59s" in text and "1,234" in text


def test_without_metrics() -> None:
    assert "--enable-metrics" in shown(reading(1.0, 3, metrics=""))


def test_quantile() -> None:
    buckets = {0.001: 97.0, 0.005: 100.0, float("inf"): 100.0}
    assert (quantile(buckets, 0.5), quantile(buckets, 0.99)) == (0.001, 0.005)
    assert quantile({0.001: 0.0}, 0.5) is None


def test_duration() -> None:
    assert [duration(s) for s in (0, 59, 60, 3600, 90000)] == ["0s", "59s", "1m", "1h", "1d"]
