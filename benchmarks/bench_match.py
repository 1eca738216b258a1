"""Cost of finding cached documents, on the CPU alone: no engine, no model, no GPU.

Two questions. Does matching a prompt with 20 documents depend on how much else is
cached? And what does the cache cost a prompt without documents, beside SGLang's own
radix cache in the same run?

    python benchmarks/bench_match.py
"""

from __future__ import annotations

import argparse
import os
import random
import time
from array import array
from collections.abc import Callable
from statistics import median

import torch
from common import record
from sglang.srt.managers.schedule_batch import Req, ReqKvInfo
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.sampling.sampling_params import SamplingParams

from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.cache.prompt import SegmentKey
from sglang_lazy.observe.summary import MAX_LISTED, summarize
from sglang_lazy.request import CUSTOM_PARAMS_KEY, PromptShape

DOCUMENTS, DOCUMENT_TOKENS, TEXT_TOKENS = 20, 512, 64
SINK = 0


class Workload:
    """Random token ids, from one seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def tokens(self, count: int) -> array:
        return array("q", self._random.choices(range(1, 100000), k=count))

    def sample(self, documents: list[array], count: int) -> list[array]:
        return self._random.sample(documents, count)


def init_params(num_slots: int, row_length: int) -> CacheInitParams:
    return CacheInitParams(
        disable=False,
        req_to_token_pool=ReqToTokenPool(4, row_length, "cpu", False),
        token_to_kv_pool_allocator=TokenToKVPoolAllocator(
            num_slots, torch.float32, "cpu", None, need_sort=False
        ),
        page_size=1,
    )


def new_request(token_ids: array, shape: PromptShape | None = None) -> Req:
    custom_params = None if shape is None else {CUSTOM_PARAMS_KEY: shape.encode()}
    return Req("", "", token_ids, SamplingParams(custom_params=custom_params))


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


class DocumentTraffic:
    """Prompts of 20 documents out of those that fill a cache of ``cached_tokens``."""

    def __init__(self, cached_tokens: int) -> None:
        self.workload = Workload()
        row_length = DOCUMENTS * DOCUMENT_TOKENS + 2 * TEXT_TOKENS + 1
        params = init_params(cached_tokens + 8, row_length)
        allocator = params.token_to_kv_pool_allocator
        self.cache = LazyPrefixCache(params, sink_token_id=SINK, hash_seed=1)
        key, no_slots = SegmentKey(None, array("q")), torch.empty(0, dtype=torch.int64)
        sink = self.cache.store_segment(key, array("q", [SINK]), no_slots, allocator.alloc(1))
        count = cached_tokens // DOCUMENT_TOKENS
        self.documents = [self.workload.tokens(DOCUMENT_TOKENS) for _ in range(count)]
        for document in self.documents:
            slots = allocator.alloc(DOCUMENT_TOKENS)
            key = SegmentKey(None, array("q", [SINK]))
            stored = self.cache.store_segment(key, document, sink.slots, slots)
            resident = self.cache.statistics.resident
            resident.add(stored.node, DOCUMENT_TOKENS, 1, None, "sink")

    def request(self) -> Req:
        workload = self.workload
        token_ids = array("q", [SINK]) + workload.tokens(TEXT_TOKENS)
        spans = []
        for document in workload.sample(self.documents, DOCUMENTS):
            spans.append((len(token_ids), len(token_ids) + DOCUMENT_TOKENS))
            token_ids += document
        token_ids += workload.tokens(TEXT_TOKENS)
        return new_request(token_ids, PromptShape(len(token_ids), tuple(spans), "sink"))

    def time(self, repeats: int) -> tuple[float, float]:
        """Median ms to match a prompt, its row's order included, and to count what it found."""
        matching, counting = [], []
        for _ in range(repeats):
            req = self.request()
            matching.append(milliseconds(lambda req=req: req.init_next_round_input(self.cache)))
            hit = len(req.prefix_indices)
            assert hit >= DOCUMENTS * DOCUMENT_TOKENS + 1, f"only {hit} tokens hit"
            counting.append(milliseconds(lambda req=req: self.cache.note_admission(req)))
        assert self.cache.statistics.lookups.documents["hit"] == repeats * DOCUMENTS
        return median(matching), median(counting)

    def time_summary(self) -> float:
        """ms for what the scheduler does for ``GET /chunk_cache?documents=100``, at first."""
        return milliseconds(lambda: summarize(self.cache, MAX_LISTED, dp_rank=0))


class PlainTraffic:
    """Prompts of 1,088 tokens that share heads of 512, through a whole request's calls."""

    def __init__(self, make_cache: Callable[[CacheInitParams], RadixCache], prompts: int) -> None:
        workload = Workload()
        heads = [workload.tokens(DOCUMENT_TOKENS) for _ in range(DOCUMENTS)]
        self.prompts = [
            heads[i % DOCUMENTS] + workload.tokens(DOCUMENT_TOKENS + TEXT_TOKENS)
            for i in range(prompts)
        ]
        num_slots = sum(map(len, self.prompts))
        self.cache = make_cache(init_params(num_slots, len(self.prompts[0])))
        self.allocator = self.cache.token_to_kv_pool_allocator

    def serve(self, token_ids: array) -> int:
        req = new_request(token_ids)
        req.init_next_round_input(self.cache)
        hit = len(req.prefix_indices)
        self.cache.inc_lock_ref(req.last_node)
        end = len(token_ids)
        req.set_extend_range(hit, end)
        pool = self.cache.req_to_token_pool
        pool.alloc([req])
        req.kv = ReqKvInfo(kv_allocated_len=end, swa_evicted_seqlen=0)
        req.kv_committed_len = end
        pool.write((req.req_pool_idx, slice(0, hit)), req.prefix_indices)
        pool.write((req.req_pool_idx, slice(hit, end)), self.allocator.alloc(end - hit))
        self.cache.cache_unfinished_req(req)
        self.cache.cache_finished_req(req, kv_len_to_handle=end)
        pool.free(req)
        return hit

    def clear(self) -> None:
        self.cache.reset()
        self.allocator.clear()


def time_plain(prompts: int, repeats: int) -> tuple[float, float]:
    """Median µs per request without documents: the lazy cache's, and the stock one's."""
    lazy = PlainTraffic(lambda params: LazyPrefixCache(params, SINK, 1), prompts)
    stock = PlainTraffic(RadixCache, prompts)
    times: dict[PlainTraffic, list[float]] = {lazy: [], stock: []}
    for i in range(repeats):
        lazy.clear()
        stock.clear()
        # By turns, so that whatever else the machine does is shared fairly.
        for j, prompt in enumerate(lazy.prompts):
            hits = set()
            for traffic in (lazy, stock) if (i + j) % 2 else (stock, lazy):
                start = time.perf_counter()
                hits.add(traffic.serve(prompt))
                times[traffic].append((time.perf_counter() - start) * 1e6)
            assert len(hits) == 1, "the hits differ"
    return median(times[lazy]), median(times[stock])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--cached", type=int, nargs="+", default=[102_400, 409_600, 1_638_400], metavar="TOKENS"
    )
    parser.add_argument("--prompts", type=int, default=200, help="without documents, per round")
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()

    print(f"Matching {DOCUMENTS} documents of {DOCUMENT_TOKENS} tokens:")
    by_size, counting, summaries = {}, {}, {}
    for cached_tokens in args.cached:
        traffic = DocumentTraffic(cached_tokens)
        by_size[cached_tokens], counting[cached_tokens] = traffic.time(args.repeats)
        summaries[cached_tokens] = traffic.time_summary()
        print(
            f"  {cached_tokens:>9,} tokens cached  {by_size[cached_tokens]:7.3f} ms, "
            f"counting hits {counting[cached_tokens] * 1e3:.0f} µs, "
            f"a summary {summaries[cached_tokens]:.1f} ms"
        )
    lazy, stock = time_plain(args.prompts, args.repeats)
    print("A request without documents, all calls:")
    print(f"  lazy {lazy:7.1f} µs   stock {stock:7.1f} µs   ratio {lazy / stock:.3f}")

    small, large = args.cached[0], args.cached[-1]
    record(
        "match",
        value=by_size[large],
        baseline=by_size[small],
        unit="ms",
        meaning=f"match {DOCUMENTS} documents of {DOCUMENT_TOKENS} tokens with {large} tokens "
        f"cached; baseline: with {small}",
        by_cached_tokens=by_size,
        statistics={
            "unit": "ms",
            "meaning": "by cached tokens: counting what an admitted request found; the "
            "scheduler's part of GET /chunk_cache",
            "counting": counting,
            "summary": summaries,
        },
        without_documents={
            "value": lazy,
            "baseline": stock,
            "ratio": lazy / stock,
            "unit": "µs",
            "meaning": "a whole request without documents; baseline: SGLang's RadixCache",
        },
        prompts=args.prompts,
        repeats=args.repeats,
        cpus=os.cpu_count(),
    )


if __name__ == "__main__":
    main()
