"""Engine benchmark on one GPU: time to first token and decoding, lazy beside stock SGLang.

The workload is retrieval-augmented generation: 20 documents of 512 tokens and a
question of 64 tokens, on a model of Llama-3-8B's shape with random weights (timing
needs no others). Stock SGLang runs with its default attention backend. Both engines
run in this process, one after the other.

    python benchmarks/bench_engine.py            # both legs, then the table
    python benchmarks/bench_engine.py --leg lazy # one leg, its raw figures as JSON
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from common import RESULTS, record
from profiling import prompt_timeline, trace, waits

DOCUMENTS, DOCUMENT_TOKENS, QUESTION_TOKENS = 20, 512, 64
DECODE_REQUESTS, DECODE_POOL = 48, 40
REPEATS = 8
PROFILED_STEPS = 64
LLAMA_3_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 16384,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
MAX_REQUESTS = 64
Prompt = tuple[list[list[int]], list[int]]
"""Documents and question."""
ENGINE: dict[str, Any] = {
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
    "chunked_prefill_size": 16384,
    "max_running_requests": MAX_REQUESTS,
    "cuda_graph_max_bs_decode": MAX_REQUESTS,
    "mem_fraction_static": 0.85,
}
"""Of every leg, beside what it is about."""


class Workload:
    """Random token ids, from one seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def tokens(self, count: int) -> list[int]:
        return self._random.choices(range(1000, 100000), k=count)

    def documents(self, count: int) -> list[list[int]]:
        return [self.tokens(DOCUMENT_TOKENS) for _ in range(count)]

    def question(self) -> list[int]:
        return self.tokens(QUESTION_TOKENS)

    def shuffled(self, documents: Sequence[list[int]], count: int) -> list[list[int]]:
        return self._random.sample(documents, count)


class Leg:
    """One engine, asked in its own way for the same prompts."""

    def __init__(self, engine: Any, lazy: bool) -> None:
        self.engine = engine
        self.lazy = lazy

    def generate(self, prompts: Sequence[Prompt], max_new_tokens: int) -> tuple[float, list[Any]]:
        """Send prompts of (documents, question) together; seconds until all are answered."""
        request: dict[str, Any] = {
            "input_ids": [
                [x for d in (*documents, question) for x in d] for documents, question in prompts
            ],
            "sampling_params": {
                "temperature": 0,
                "max_new_tokens": max_new_tokens,
                "ignore_eos": True,
            },
        }
        if self.lazy:
            request["document_spans"] = [
                [(i * DOCUMENT_TOKENS, (i + 1) * DOCUMENT_TOKENS) for i in range(len(documents))]
                for documents, _ in prompts
            ]
        start = time.perf_counter()
        outputs = self.engine.generate(**request)
        return time.perf_counter() - start, outputs

    def ttft(self, prompt: Callable[[], Prompt]) -> list[float]:
        """Milliseconds to the first token, of prompts sent one by one."""
        times = []
        for _ in range(REPEATS + 2):
            seconds, _ = self.generate([prompt()], 1)
            times.append(seconds * 1e3)
        return times[2:]

    def decode(self, prompts: Sequence[Prompt]) -> float:
        """Milliseconds per step of a steady batch."""
        self.generate(prompts, 1)
        short = min(self.generate(prompts, 32)[0] for _ in range(2))
        long = min(self.generate(prompts, 160)[0] for _ in range(2))
        return (long - short) / 128 * 1e3


def timeline(leg: Leg, prompt: Callable[[], Prompt]) -> dict[str, float]:
    """Where the time of a prompt goes, of some sent one by one under the profiler."""

    def work() -> None:
        for _ in range(REPEATS):
            leg.generate([prompt()], 1)
            time.sleep(0.1)

    return prompt_timeline(trace(leg.engine, work))


def run_leg(lazy: bool, model: str, quick: bool) -> dict[str, Any]:
    import sglang

    settings: dict[str, Any] = {"chunk_cache": "lazy", "chunk_context": "none"} if lazy else {}
    if quick:
        settings["cuda_graph_backend_prefill"] = "disabled"
    start = time.perf_counter()
    engine = sglang.Engine(model_path=model, **ENGINE, **settings)
    leg, work = Leg(engine, lazy), Workload()
    figures: dict[str, Any] = {"start_seconds": time.perf_counter() - start}
    documents = work.documents(DOCUMENTS)
    figures["ttft_cold"] = leg.ttft(lambda: (work.documents(DOCUMENTS), work.question()))
    leg.generate([(documents, work.question())], 1)
    figures["ttft_prefix"] = leg.ttft(lambda: (documents, work.question()))
    figures["ttft_reordered"] = leg.ttft(
        lambda: (work.shuffled(documents, DOCUMENTS), work.question())
    )
    pool = work.documents(DECODE_POOL)
    prompts = [(work.shuffled(pool, DOCUMENTS), work.question()) for _ in range(DECODE_REQUESTS)]
    figures["decode_step"] = leg.decode(prompts)
    events = trace(engine, lambda: leg.generate(prompts, PROFILED_STEPS))
    figures["waits_per_step"] = waits(events, PROFILED_STEPS)
    warm = work.shuffled if lazy else lambda given, _: given
    figures["timeline"] = timeline(leg, lambda: (warm(documents, DOCUMENTS), work.question()))
    plain = [([], work.tokens(1024)) for _ in range(256)]
    leg.lazy = False
    leg.generate(plain[:64], 8)
    engine.flush_cache()
    seconds, _ = leg.generate(plain, 64)
    figures["plain_requests_per_second"] = len(plain) / seconds
    engine.shutdown()
    return figures


def compare(stock: dict[str, Any], lazy: dict[str, Any], folder: Path, commit: str | None) -> None:
    rows = [
        ("ttft_warm_reordered", median(lazy["ttft_reordered"]), median(stock["ttft_prefix"]), "ms"),
        ("ttft_cold", median(lazy["ttft_cold"]), median(stock["ttft_cold"]), "ms"),
        ("decode_step_shared", lazy["decode_step"], stock["decode_step"], "ms"),
        (
            "no_documents_throughput",
            lazy["plain_requests_per_second"],
            stock["plain_requests_per_second"],
            "requests/s",
        ),
        (
            "decode_host_waits",
            sum(lazy["waits_per_step"].values()),
            sum(stock["waits_per_step"].values()),
            "calls/step",
        ),
        (
            "ttft_warm_device",
            lazy["timeline"]["device"],
            stock["timeline"]["device"],
            "ms",
        ),
    ]
    print(f"{'figure':28s}{'lazy':>10s}{'stock':>10s}{'ratio':>8s}")
    for figure, value, baseline, unit in rows:
        more = {"lazy": lazy["timeline"], "stock": stock["timeline"]} if "device" in figure else {}
        result = record(figure, value, baseline, unit, folder, commit=commit, **more)
        print(f"{figure:28s}{value:10.2f}{baseline:10.2f}{result['ratio']:8.3f} {unit}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leg", choices=("stock", "lazy"))
    parser.add_argument("--quick", action="store_true", help="no prefill graphs: fast start")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", help="recorded where the tree is no repository")
    args = parser.parse_args()
    if args.leg:
        with tempfile.TemporaryDirectory() as model:
            (Path(model) / "config.json").write_text(json.dumps(LLAMA_3_8B))
            figures = run_leg(args.leg == "lazy", model, args.quick)
        print("FIGURES " + json.dumps(figures), flush=True)
        return
    legs = {}
    for leg in ("stock", "lazy"):
        command = [sys.executable, __file__, "--leg", leg, *(["--quick"] if args.quick else [])]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        line = next(x for x in run.stdout.splitlines() if x.startswith("FIGURES "))
        legs[leg] = json.loads(line.removeprefix("FIGURES "))
        print(leg, json.dumps(legs[leg]), flush=True)
    compare(legs["stock"], legs["lazy"], args.out, args.commit)


if __name__ == "__main__":
    main()
