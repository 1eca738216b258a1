"""What the profiler of an engine says: waits of the host, and where a prompt's time goes."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HOST_WAITS = (
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaStreamSynchronize",
)
"""Calls in which the host waits for the device."""

GAP_US = 20_000
"""Between prompts that are sent one by one, with a pause, nothing runs for longer than this."""


def trace(engine: Any, work: Callable[[], Any]) -> list[dict[str, Any]]:
    """Events of the scheduler and the device while ``work`` runs."""
    with tempfile.TemporaryDirectory() as folder:
        engine.start_profile(
            output_dir=folder, activities=["CPU", "GPU"], with_stack=False, record_shapes=False
        )
        work()
        engine.stop_profile()
        (path,) = Path(folder).rglob("*.trace.json.gz")
        with gzip.open(path, "rt") as file:
            events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return events


def waits(events: list[dict[str, Any]], num_steps: int) -> dict[str, float]:
    """Calls by name and step in which the host waits for the device."""
    names = [e["name"] for e in events if e.get("cat") == "cuda_runtime"]
    return {name: names.count(name) / num_steps for name in HOST_WAITS}


def prompt_timeline(events: list[dict[str, Any]]) -> dict[str, float]:
    """Medians over prompts that were sent one by one, in milliseconds.

    Returns:
        ``prepare``: from the scheduler's first call of the device to the device's first
        kernel that runs longer than 20 us; ``device``: from there to the device's last
        event; ``busy``: of that, how long anything runs on the device.
    """
    on_device = ("kernel", "gpu_memcpy", "gpu_memset")
    timed = sorted(
        (e["ts"], e["ts"] + e["dur"], e["cat"] in on_device)
        for e in events
        if e.get("cat") in (*on_device, "cuda_runtime", "cuda_driver")
    )
    clusters: list[list[tuple[float, float, bool]]] = []
    last_end = float("-inf")
    for event in timed:
        if event[0] > last_end + GAP_US:
            clusters.append([])
        clusters[-1].append(event)
        last_end = max(last_end, event[1])
    rows = [row for row in map(_timeline, clusters) if row]
    return {name: median(row[name] for row in rows) for name in rows[0]} if rows else {}


def _timeline(cluster: list[tuple[float, float, bool]]) -> dict[str, float] | None:
    device = [(start, end) for start, end, is_device in cluster if is_device]
    first = next((start for start, end in device if end - start > 20), None)
    if first is None:
        return None
    busy, reached = 0.0, first
    for start, end in device:
        busy += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return {
        "prepare": (first - cluster[0][0]) / 1e3,
        "device": (reached - first) / 1e3,
        "busy": busy / 1e3,
    }
