"""Eviction policies compared by traces on the real tree: no engine, no model, no GPU.

2,500 documents of 200 to 4,000 tokens, five of them in each request, drawn by a Zipf law or by
one whose first ranks change hands (eviction_traces.py). Token hit rate is the share of prompt
tokens that came from the cache, once it is warm. Requests are served one after the other, all
calls of a scheduler on the cache included, under budgets of 1%, 10% and 50% of the documents'
tokens.

- lazy: this project's cache, under SGLang's policies lru, lfu and slru, and under gdsf.
- position-aware: a document hits only where it stands at the offset at which it was computed,
  as in a cache that reuses chunks and cannot move them. It is the same tree, with a document's
  offset in its namespace, and evicts by lru.
- prefix: SGLang's RadixCache on the same prompts, lru.
- best fixed set: the documents that were used most often, held from the beginning to the end.
  A bound that no cache can know; what adapts to shifting popularity may pass it.

Beside that: what an eviction costs the host with 1.6 million tokens in the tree.

    python benchmarks/bench_eviction.py [--plot docs/images/eviction.svg]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from bench_match import Workload, init_params, new_request
from common import RESULTS, record
from eviction_traces import (
    ANSWER_TOKENS,
    PER_REQUEST,
    Population,
    Prompt,
    Trace,
    best_fixed,
    prompts,
)
from sglang.srt.managers.schedule_batch import Req, ReqKvInfo
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache

from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.cache.prompt import SegmentKey
from sglang_lazy.cache.request_state import RequestState
from sglang_lazy.request import PromptShape

BUDGETS = (0.01, 0.1, 0.5)
ALPHAS = (0.8, 1.1, 1.5, 2.1)
SHIFTING = "shifting"


class PositionAwareCache(LazyPrefixCache):
    """A document is found only at the offset at which it was computed."""

    def _new_state(self, req: Req, shape: PromptShape) -> RequestState:
        state = super()._new_state(req, shape)
        prompt = state.prompt
        prompt.keys = tuple(
            key._replace(namespace=("offset", start)) if is_document else key
            for key, start, is_document in zip(
                prompt.keys, prompt.starts, prompt.is_document, strict=True
            )
        )
        return state


def lazy(policy: str, cls: type[LazyPrefixCache] = LazyPrefixCache) -> Callable[..., RadixCache]:
    return lambda params: cls(replace(params, eviction_policy=policy), hash_seed=1)


SYSTEMS: Mapping[str, Callable[[CacheInitParams], RadixCache]] = {
    "lazy, gdsf": lazy("gdsf"),
    "lazy, lru": lazy("lru"),
    "lazy, lfu": lazy("lfu"),
    "lazy, slru": lazy("slru"),
    "position-aware": lazy("lru", PositionAwareCache),
    "prefix": RadixCache,
}
BOUND = "best fixed set"
HIDDEN = ("lazy, slru",)
"""Left out of the plot: it lies on lru."""


class Server:
    """The calls that a scheduler makes on its cache, one request at a time."""

    def __init__(self, make_cache: Callable[..., RadixCache], budget: int, row: int) -> None:
        self.cache = make_cache(init_params(budget, row))
        self.allocator = self.cache.token_to_kv_pool_allocator
        self.marks = isinstance(self.cache, LazyPrefixCache)

    def allocate(self, count: int) -> torch.Tensor:
        missing = count - self.allocator.available_size()
        if missing > 0:
            self.cache.evict(EvictParams(num_tokens=missing))
        slots = self.allocator.alloc(count)
        assert slots is not None, "the budget is smaller than a prompt"
        return slots

    def serve(self, prompt: Prompt) -> int:
        """Tokens that came from the cache."""
        cache, pool, end = self.cache, self.cache.req_to_token_pool, len(prompt.input_ids)
        shape = PromptShape(end, prompt.spans, "none") if self.marks else None
        req = new_request(prompt.input_ids, shape)
        req.init_next_round_input(cache)
        hit = len(req.prefix_indices)
        cache.inc_lock_ref(req.last_node)
        if isinstance(cache, LazyPrefixCache):
            cache.note_admission(req)
        req.set_extend_range(hit, end)
        pool.alloc([req])
        req.kv = ReqKvInfo(kv_allocated_len=end, swa_evicted_seqlen=0)
        req.kv_committed_len = end
        pool.write((req.req_pool_idx, slice(0, hit)), req.prefix_indices)
        pool.write((req.req_pool_idx, slice(hit, end)), self.allocate(end - hit))
        cache.cache_unfinished_req(req)
        req.output_ids.extend(prompt.answer)
        total = end + len(prompt.answer)
        pool.write((req.req_pool_idx, slice(end, total)), self.allocate(len(prompt.answer)))
        req.kv_committed_len = req.kv.kv_allocated_len = total
        cache.cache_finished_req(req, kv_len_to_handle=total)
        pool.free(req)
        return hit


def hit_rates(
    population: Population, trace: Trace, budget: float, systems: Mapping[str, Any] = SYSTEMS
) -> dict[str, float]:
    """Token hit rate by system."""
    documents, requests = population.documents, trace.requests(population.count)
    slots = int(budget * population.num_tokens)
    row = PER_REQUEST * population.longest + 2 * ANSWER_TOKENS + 256
    rates = {}
    for name, make_cache in systems.items():
        server = Server(make_cache, slots, row)
        hits = total = 0
        for i, prompt in enumerate(prompts(documents, requests)):
            hit = server.serve(prompt)
            if i >= trace.num_warm:
                hits, total = hits + hit, total + len(prompt.input_ids)
        rates[name] = hits / total
    rates[BOUND] = best_fixed(documents, requests[trace.num_warm :], slots)
    return rates


def eviction_costs(cached_tokens: int, answers: int, repeats: int) -> dict[str, float]:
    """Median ms of an eviction that frees one leaf, by policy; and by SGLang's own loop."""
    length, short = 512, 16
    evictions = {
        "gdsf": ("gdsf", LazyPrefixCache.evict),
        "lru": ("lru", LazyPrefixCache.evict),
        "lru, SGLang's loop": ("lru", RadixCache.evict),
    }
    costs = {}
    for name, (policy, evict) in evictions.items():
        workload = Workload()
        params = init_params(cached_tokens + answers * short, length)
        cache = LazyPrefixCache(replace(params, eviction_policy=policy), hash_seed=1)
        allocator = params.token_to_kv_pool_allocator
        no_slots = torch.empty(0, dtype=torch.int64)
        for i in range(cached_tokens // length + answers):
            is_document = i < cached_tokens // length
            tokens = workload.tokens(length if is_document else short)
            key = SegmentKey(None if is_document else ("question", i), tokens[:0])
            cache.store_segment(key, tokens, no_slots, allocator.alloc(len(tokens)))
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            evict(cache, EvictParams(num_tokens=1))
            times.append((time.perf_counter() - start) * 1e3)
        costs[name] = median(times)
    return costs


def print_table(points: list[dict[str, Any]]) -> None:
    names = list(points[0]["hit_rates"])
    print(f"{'budget':>7s} {'trace':>9s}  " + "".join(f"{name:>16s}" for name in names))
    for point in points:
        rates = "".join(f"{100 * point['hit_rates'][name]:15.1f}%" for name in names)
        print(f"{point['budget']:7.0%} {point['trace']!s:>9s}  {rates}")


def write_plot(path: Path, points: list[dict[str, Any]]) -> None:
    """Share of prompt tokens from the cache, by budget, popularity and eviction policy."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    # Small, and the same file from the same figures.
    rcParams.update({"svg.hashsalt": "eviction", "svg.fonttype": "none"})
    figure = Figure(figsize=(12, 4), layout="constrained")
    axes = figure.subplots(1, len(BUDGETS), sharey=True)
    traces = [*map(str, ALPHAS), SHIFTING]
    for panel, budget in zip(axes, BUDGETS, strict=True):
        here = {p["trace"]: p["hit_rates"] for p in points if p["budget"] == budget}
        for i, name in enumerate([*SYSTEMS, BOUND]):
            if name in HIDDEN:
                continue
            style: dict[str, Any] = {"color": f"C{i}", "zorder": 9 - i}  # the first ones on top
            if name == BOUND:
                style = {"color": "0.6", "linestyle": ":"}
            rates = [100 * here[trace][name] for trace in traces]
            panel.plot(traces[:-1], rates[:-1], marker="o", markersize=4, label=name, **style)
            panel.plot(traces[-1:], rates[-1:], marker="D", markersize=5, **style)
        panel.set_title(f"budget {budget:.0%}", loc="left", fontsize="medium")
        panel.set_xlabel("Zipf α, and shifting popularity (α = 1.1)")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("prompt tokens from the cache, %")
    axes[-1].legend(frameon=False, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".svg":
        figure.savefig(path)
        return
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Title": "Eviction policies"})
    # What matplotlib has no word for: what the picture shows, for those who do not see it.
    described = f"</title>\n <desc>{write_plot.__doc__}</desc>"
    path.write_text(text.getvalue().replace("</title>", described, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=3000, help="of each trace")
    parser.add_argument("--warm", type=int, default=1000, help="of them, not counted")
    parser.add_argument("--shift-every", type=int, default=250, metavar="REQUESTS")
    parser.add_argument("--repeats", type=int, default=30, help="of evictions that are timed")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", type=Path, help="draw the hit rates: .svg, .png or .pdf")
    parser.add_argument("--plot-only", action="store_true", help="draw what was recorded")
    args = parser.parse_args()
    if args.plot_only:
        recorded = json.loads((args.results / "eviction.json").read_text())
        write_plot(args.plot, recorded["points"])
        return

    population = Population()
    print(f"{population.count} documents, {population.num_tokens:,} tokens", flush=True)
    traces = {str(alpha): Trace(alpha, args.requests, args.warm) for alpha in ALPHAS}
    traces[SHIFTING] = Trace(1.1, args.requests, args.warm, shift_every=args.shift_every)
    points = []
    for budget in BUDGETS:
        for name, trace in traces.items():
            rates = hit_rates(population, trace, budget)
            points.append({"budget": budget, "trace": name, "hit_rates": rates})
            print_table(points[-1:])
    costs = {
        str(answers): eviction_costs(1_638_400, answers, args.repeats) for answers in (0, 20_000)
    }
    print()
    print_table(points)
    print("\nms to evict one leaf, with 3,200 documents and so many answers in the tree:")
    for answers, by_policy in costs.items():
        print(f"{int(answers):7,}  " + ", ".join(f"{k} {v:.3f}" for k, v in by_policy.items()))

    at = {(p["budget"], p["trace"]): p["hit_rates"] for p in points}
    rates = at[0.1, "1.1"]
    record(
        "eviction",
        value=rates["lazy, gdsf"],
        baseline=rates["lazy, lru"],
        unit="share of prompt tokens",
        folder=args.results,
        meaning="token hit rate of policy gdsf, Zipf 1.1, budget 10%; baseline: policy lru",
        points=points,
        population={**asdict(population), "tokens": population.num_tokens},
        traces={name: asdict(trace) for name, trace in traces.items()},
        eviction_cost={
            "unit": "ms",
            "meaning": "to evict one leaf, by number of answers of 16 tokens in the tree beside "
            "3,200 documents of 512",
            "by_answers": costs,
        },
        cpus=os.cpu_count(),
    )
    if args.plot:
        write_plot(args.plot, points)


if __name__ == "__main__":
    main()
