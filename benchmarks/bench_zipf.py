"""Engine benchmark under Zipf traffic: lazy, stock SGLang and a fair Block-Attention baseline.

100 documents of 2048 tokens, five of them per request, drawn without replacement by their
global popularity (rank ** -alpha), in the order drawn; a question of 64 tokens, 64 tokens
generated. A closed loop keeps a fixed number of requests in the engine; its time to first
token counts from a request's arrival. The KV budget is a share of what the GPU has room
for. Stock SGLang runs with its default attention backend and its prefix cache; the
baseline is block_attention/. One engine after the other, each measured at every point.

    python benchmarks/bench_zipf.py [--out DIR]   # three engines, then table and plots
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

from bench_engine import ENGINE, LLAMA_3_8B, MAX_REQUESTS
from common import RESULTS, record

POINTS = (
    (1.0, 2.1),
    (1.0, 1.1),
    (0.1, 2.1),
    (0.1, 1.1),
    (1.0, 0.8),
    (1.0, 0.0),
    (0.1, 0.8),
    (0.1, 0.0),
)
"""KV budget, as a share of the pool, and alpha; those of the recorded figures first."""
FIGURES = (
    ("zipf21_throughput_vs_block_10pct", "block", (0.1, 2.1)),
    ("zipf11_throughput_vs_stock", "stock", (1.0, 1.1)),
    ("zipf21_throughput_vs_stock", "stock", (1.0, 2.1)),
)
"""What is recorded: name, the leg that the lazy one is compared with, point."""
NUM_DOCUMENTS, DOCUMENT_TOKENS, PER_REQUEST = 100, 2048, 5
QUESTION_TOKENS, ANSWER_TOKENS = 64, 64
CONCURRENCY = MAX_REQUESTS
WARM_SECONDS, MEASURE_SECONDS, MAX_SECONDS, DRAIN_SECONDS = 4.0, 5.0, 120.0, 60.0
LEGS = ("lazy", "block", "stock")


class Traffic:
    """Prompts drawn from one seed; equal in every leg."""

    def __init__(self, alpha: float, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.documents = [self._tokens(DOCUMENT_TOKENS) for _ in range(NUM_DOCUMENTS)]
        self._weights = list(accumulate((rank + 1) ** -alpha for rank in range(NUM_DOCUMENTS)))

    def _tokens(self, count: int) -> list[int]:
        return self._random.choices(range(1000, 100000), k=count)

    def prompt(self) -> list[int]:
        chosen: dict[int, None] = {}  # ordered
        while len(chosen) < PER_REQUEST:
            (rank,) = self._random.choices(range(NUM_DOCUMENTS), cum_weights=self._weights)
            chosen[rank] = None
        ids = [x for rank in chosen for x in self.documents[rank]]
        return ids + self._tokens(QUESTION_TOKENS)


SPANS = [(i * DOCUMENT_TOKENS, (i + 1) * DOCUMENT_TOKENS) for i in range(PER_REQUEST)]


@dataclass
class Answer:
    arrived: float
    first_token: float
    finished: float
    cached_tokens: int


async def ask(engine: Any, prompt: list[int], marked: bool) -> Answer:
    arrived, first = time.perf_counter(), 0.0
    cached = 0
    stream = await engine.async_generate(
        input_ids=prompt,
        sampling_params={
            "temperature": 0,
            "max_new_tokens": ANSWER_TOKENS,
            "ignore_eos": True,
        },
        stream=True,
        **({"document_spans": SPANS} if marked else {}),
    )
    async for output in stream:
        first = first or time.perf_counter()
        cached = output["meta_info"].get("cached_tokens", 0)
    return Answer(arrived, first, time.perf_counter(), cached)


async def closed_loop(engine: Any, traffic: Traffic, marked: bool) -> tuple[list[Answer], float]:
    """Keep ``CONCURRENCY`` requests in flight until enough have been answered.

    A system that puts prompts first answers in waves of as many requests, so windows are
    counted in answers, whole waves of them, and last some seconds at least.

    Returns:
        Those answered after the warm-up, and the seconds that took.
    """
    answers: list[Answer] = []
    is_over = False

    async def client() -> None:
        while not is_over:
            # What is aborted before its first token is an error to the engine.
            with contextlib.suppress(ValueError):
                answer = await ask(engine, traffic.prompt(), marked)
                if not is_over:
                    answers.append(answer)

    async def window(requests: int, seconds: float) -> list[Answer]:
        first, start = len(answers), time.perf_counter()
        while len(answers) < first + requests or time.perf_counter() < start + seconds:
            if time.perf_counter() > start + MAX_SECONDS:
                raise SystemExit(f"{len(answers) - first} answers in {MAX_SECONDS} s")
            await asyncio.sleep(0.01)
        return answers[first:]

    clients = asyncio.gather(*(client() for _ in range(CONCURRENCY)))
    warm = await window(CONCURRENCY, WARM_SECONDS)
    measured = await window(2 * CONCURRENCY, MEASURE_SECONDS)
    is_over = True
    engine.tokenizer_manager.abort_request(abort_all=True)
    await asyncio.wait_for(clients, DRAIN_SECONDS)  # a dead engine never answers
    return measured, measured[-1].finished - warm[-1].finished


def measure(engine: Any, alpha: float, marked: bool) -> dict[str, float]:
    loop = closed_loop(engine, Traffic(alpha), marked)
    answers, seconds = engine.loop.run_until_complete(loop)
    tokens = PER_REQUEST * DOCUMENT_TOKENS + QUESTION_TOKENS
    ttft = sorted(a.first_token - a.arrived for a in answers)
    return {
        "requests_per_second": len(answers) / seconds,
        "seconds": seconds,
        "ttft_median": median(ttft),
        "ttft_p95": ttft[int(0.95 * (len(ttft) - 1))],
        "cached_share": sum(a.cached_tokens for a in answers) / (tokens * len(answers)),
    }


def wait_until_flushed(engine: Any) -> None:
    for _ in range(100):
        if engine.flush_cache().success:
            return
        time.sleep(0.1)
    raise SystemExit("the engine does not become idle")


def points_of(leg: str, recorded_only: bool) -> list[tuple[float, float]]:
    needed = [point for _, baseline, point in FIGURES if leg in ("lazy", baseline)]
    return [point for point in POINTS if not recorded_only or point in needed]


def run_leg(leg: str, model: str, recorded_only: bool) -> list[dict[str, Any]]:
    import sglang

    settings: dict[str, Any] = {}
    if leg != "stock":
        settings = {"chunk_cache": "lazy", "chunk_context": "none"}
    start = time.perf_counter()
    engine = sglang.Engine(
        model_path=model,
        **ENGINE,
        # Prompts of a thousand tokens and more leave these graphs unused.
        cuda_graph_backend_prefill="disabled",
        stream_interval=ANSWER_TOKENS,
        **settings,
    )
    capacity = engine.get_server_info()["max_total_num_tokens"]
    print(f"{leg}: {capacity} tokens, started in {time.perf_counter() - start:.0f} s", flush=True)
    points = []
    for budget, alpha in points_of(leg, recorded_only):
        Path(os.environ["BENCH_TOKEN_BUDGET"]).write_text(str(int(capacity * budget)))
        wait_until_flushed(engine)
        figures = measure(engine, alpha, marked=leg != "stock")
        points.append({"leg": leg, "budget": budget, "alpha": alpha, **figures})
        print(json.dumps(points[-1]), flush=True)
    engine.shutdown()
    return points


def start_leg(leg: str, recorded_only: bool) -> list[dict[str, Any]]:
    """A leg in a process of its own, with block_attention/ installed as a plugin there."""
    with tempfile.TemporaryDirectory() as scratch:
        info = Path(scratch) / "block_attention-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: block-attention\nVersion: 0\n")
        (info / "entry_points.txt").write_text(
            "[sglang.srt.plugins]\nblock_attention = block_attention.plugin:register\n"
        )
        paths = [scratch, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "BENCH_TOKEN_BUDGET": str(Path(scratch) / "budget"),
            "BENCH_BLOCK_ATTENTION": str(int(leg == "block")),
        }
        command = [sys.executable, __file__, "--leg", leg]
        command += ["--recorded"] if recorded_only else []
        run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert run.stdout is not None
        points = []
        for line in run.stdout:
            if line.startswith("FIGURES "):
                points = json.loads(line.removeprefix("FIGURES "))
            elif line.startswith(("{", leg)):
                print(line, end="", flush=True)
        if run.wait():
            raise SystemExit(f"the {leg} leg failed")
    return points


def write(points: list[dict[str, Any]], folder: Path, commit: str | None) -> None:
    at = {(p["leg"], p["budget"], p["alpha"]): p["requests_per_second"] for p in points}

    for name, baseline, (budget, alpha) in FIGURES:
        value, other = (at.get((leg, budget, alpha)) for leg in ("lazy", baseline))
        if value and other:
            more = {"commit": commit, "kv_budget": budget}
            ratio = record(name, value, other, "requests/s", folder, **more)["ratio"]
            print(f"{name:36s}{value:10.2f}{other:10.2f}{ratio:8.2f}", flush=True)
    (folder / "zipf_points.json").write_text(json.dumps(points, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leg", choices=LEGS)
    parser.add_argument(
        "--recorded", action="store_true", help="only the points of the recorded figures"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", help="recorded where the tree is no repository")
    args = parser.parse_args()
    if args.leg:
        with tempfile.TemporaryDirectory() as model:
            (Path(model) / "config.json").write_text(json.dumps(LLAMA_3_8B))
            points = run_leg(args.leg, model, args.recorded)
        print("FIGURES " + json.dumps(points), flush=True)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    points: list[dict[str, Any]] = []
    for leg in LEGS:
        points += start_leg(leg, args.recorded)
        write(points, args.out, args.commit)


if __name__ == "__main__":
    main()
