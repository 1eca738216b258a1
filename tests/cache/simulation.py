"""A scheduler's calls on the prefix cache, and what every slot holds.

KV is simulated by its *content*: a value that names everything a token's KV may depend
on. Each pass writes the contents of the slots it computes; a row is right when each of
its slots holds the content that the prompt's own token would have.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import Req, ReqKvInfo
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.sampling.sampling_params import SamplingParams

from sglang_lazy.cache.prefix_cache import LazyPrefixCache
from sglang_lazy.cache.request_state import RequestState, admitted_state

from .pool import check_accounts, locked_slots, make_cache, tree_slots
from .prompts import Content, Prompt


@dataclass(eq=False)
class Running:
    """A request in flight."""

    prompt: Prompt
    req: Req
    cached: list[int] = field(default_factory=list)
    """Tokens of each segment that were found when it was admitted."""
    is_pending: bool = False
    """Whether a pass was computed whose result has not been processed."""

    @property
    def ids(self) -> list[int]:
        return [*self.req.origin_input_ids, *self.req.output_ids]

    @property
    def is_prefilled(self) -> bool:
        return self.req.kv_committed_len >= len(self.req.full_untruncated_fill_ids)

    def permutation(self) -> list[int]:
        """Logical index of each place of the row: cached tokens first."""
        place = [
            (offset >= hit, start + offset)
            for start, hit, part in zip(
                self.prompt.starts, self.cached, self.prompt.full_parts(self.ids), strict=True
            )
            for offset in range(len(part.tokens))
        ]
        return [index for _, index in sorted(place)]


class Simulation:
    """Requests over one cache.

    Args:
        num_slots: size of the pool.
        exact: whether every possible hit must happen; False where hashes collide.
        cache: another cache than the lazy one.
        num_rows: requests that may run at once.
        policy: by which the lazy one evicts.
    """

    def __init__(
        self,
        num_slots: int = 400,
        exact: bool = True,
        cache: RadixCache | None = None,
        num_rows: int = 8,
        policy: str = "lru",
    ) -> None:
        self.cache: Any = cache or make_cache(num_slots, num_rows, row_length=1024, policy=policy)
        self.allocator = self.cache.token_to_kv_pool_allocator
        self.exact = exact
        self.written: dict[int, Content] = {}
        self.weights = 0
        self.written_with: dict[int, int] = {}
        self.running: list[Running] = []

    def new(self, prompt: Prompt, logprob_start_len: int | None = None) -> Running:
        params = SamplingParams(custom_params=prompt.custom_params)
        req = Req(
            "rid",
            "",
            array("q", prompt.ids),
            params,
            return_logprob=logprob_start_len is not None,
            extra_key=prompt.extra_key,
            lora_id=prompt.lora_id,
        )
        req.logprob_start_len = -1 if logprob_start_len is None else logprob_start_len
        return Running(prompt, req)

    def match(self, run: Running) -> None:
        """Match for admission, and check the hit against what the tree holds."""
        in_tree = self.contents_in_tree()
        limit = run.req._compute_max_prefix_len(len(run.ids))
        expected = []
        contents = run.prompt.contents(run.ids)
        for start, segment in zip(run.prompt.starts, contents, strict=True):
            known = [content in in_tree for content in segment[: max(limit - start, 0)]]
            expected.append((known + [False]).index(False))
        run.req.init_next_round_input(self.cache)
        if getattr(self.cache, "lacks_room", lambda req: False)(run.req):
            assert len(run.req.prefix_indices) == 0
            return
        state = admitted_state(run.req)
        self.forget_unwritten(state)
        hit = [len(run.req.prefix_indices)] if state is None else list(state.layout.cached)
        if self.exact:
            assert hit == expected
        assert all(a <= b for a, b in zip(hit, expected, strict=True))
        assert sum(hit) == len(run.req.prefix_indices)
        run.cached = hit

    def forget_unwritten(self, state: RequestState | None) -> None:
        """Slots of detached tokens are taken anew: what they held before is garbage."""
        for detached in () if state is None else state.detached():
            for slot in detached.slots[detached.num_cached :].tolist():
                self.written.pop(slot, None)

    def admit(self, run: Running) -> Running:
        self.match(run)
        self.cache.inc_lock_ref(run.req.last_node)
        if isinstance(self.cache, LazyPrefixCache):
            self.cache.note_admission(run.req)
        self.running.append(run)
        return run

    def start(self, prompt: Prompt, logprob_start_len: int | None = None) -> Running:
        return self.admit(self.new(prompt, logprob_start_len))

    def compute(
        self, run: Running, num_tokens: int | None = None, writes_detached: bool = True
    ) -> None:
        """One pass over the next tokens of a prompt; nothing is handed to the tree yet."""
        assert not run.is_pending
        run.is_pending = True
        req = run.req
        start = len(req.prefix_indices)
        end = len(req.full_untruncated_fill_ids)
        end = end if num_tokens is None else min(end, start + num_tokens)
        req.set_extend_range(start, end)
        if req.req_pool_idx is None:
            assert self.cache.req_to_token_pool.alloc([req])
            req.kv = ReqKvInfo(kv_allocated_len=0, swa_evicted_seqlen=0)
        slots = self.allocate(end - start)
        self.row(run)[:start] = req.prefix_indices
        self.row(run)[start:end] = slots
        req.kv_committed_len = req.kv.kv_allocated_len = end
        state = admitted_state(req)
        if writes_detached and state is not None:
            for part, detached in state.detached_in(start, end).items():
                if detached.take_missing():
                    self.write(detached.slots.tolist(), run.prompt.detached_contents(part))
        contents = sum(run.prompt.contents(run.ids), [])
        self.write(slots.tolist(), [contents[i] for i in run.permutation()[start:end]])

    def write(self, slots: list[int], contents: list[Content]) -> None:
        """KV is computed, with the weights that the model has now."""
        self.written |= dict(zip(slots, contents, strict=True))
        self.written_with |= dict.fromkeys(slots, self.weights)

    def store(self, run: Running) -> None:
        """Process the pass's result."""
        run.is_pending = False
        self.cache.cache_unfinished_req(run.req, chunked=not run.is_prefilled)

    def prefill(self, run: Running, chunk: int | None = None) -> Running:
        """All of a prompt, in passes of ``chunk`` tokens."""
        while not run.is_prefilled:
            self.compute(run, chunk)
            self.store(run)
        return run

    def decode(self, run: Running, token: int) -> None:
        """Compute the KV of a token that was generated."""
        run.req.output_ids.append(token)
        place = run.req.kv_committed_len
        slot = self.allocate(1)
        self.row(run)[place] = slot
        run.req.kv_committed_len = run.req.kv.kv_allocated_len = place + 1
        self.write([int(slot)], [run.prompt.contents(run.ids)[-1][-1]])

    def finish(self, run: Running, is_insert: bool = True) -> None:
        """Finish; with ``is_insert`` False: abort."""
        end = run.req.kv_committed_len
        self.cache.cache_finished_req(run.req, is_insert, kv_len_to_handle=end)
        self.cache.req_to_token_pool.free(run.req)
        run.req.kv = None
        run.is_pending = False
        self.running.remove(run)

    def retract(self, run: Running) -> None:
        self.finish(run, is_insert=False)
        run.req.reset_for_retract()

    def serve(self, prompt: Prompt, chunk: int | None = None, output: Iterable[int] = ()) -> int:
        """A whole request, checked after prefill and at its end; returns its cached tokens."""
        run = self.start(prompt)
        hit = len(run.req.prefix_indices)
        self.prefill(run, chunk)
        self.check()
        for token in output:
            self.decode(run, token)
        self.check()
        self.finish(run)
        self.check()
        return hit

    def flush(self) -> None:
        assert not self.running
        self.cache.reset()
        self.allocator.clear()
        self.cache.req_to_token_pool.clear()
        self.written.clear()

    def evict(self, num_tokens: int) -> None:
        self.cache.evict(EvictParams(num_tokens=num_tokens))

    def allocate(self, count: int) -> torch.Tensor:
        if (missing := count - self.allocator.available_size()) > 0:
            self.evict(missing)
        slots = self.allocator.alloc(count)
        assert slots is not None, "the pool is too small for this test"
        for slot in slots.tolist():
            self.written.pop(slot, None)  # whoever still reads it reads garbage
        return slots

    def row(self, run: Running) -> torch.Tensor:
        return self.cache.req_to_token_pool.req_to_token[run.req.req_pool_idx]

    def contents_in_tree(self) -> set[Content]:
        return {self.written[s] for s in self.shared_slots() if s in self.written}

    def shared_slots(self) -> list[int]:
        """Those of the tree that others may find."""
        nodes = getattr(self.cache, "_private", ())  # stock has none
        private = {slot for node in nodes for slot in node.value.tolist()}
        return [slot for slot in tree_slots(self.cache) if slot not in private]

    def check(self) -> None:
        """Accounts, locks, one copy of everything, and every row."""
        own: list[int] = []
        for run in self.running:
            committed = run.req.kv_committed_len
            if run.req.req_pool_idx is not None:
                own += self.row(run)[run.req.cache_protected_len : committed].tolist()
        check_accounts(self.cache, own)
        in_tree = [self.written[s] for s in self.shared_slots() if s in self.written]
        if self.exact:
            assert len(in_tree) == len(set(in_tree)), "two copies of one token's KV"
        if not self.running:
            assert self.cache.protected_size() == 0
        locked = locked_slots(self.cache)
        for run in self.running:
            self._check_run(run, locked)

    def _check_run(self, run: Running, locked: set[int]) -> None:
        req, permutation = run.req, run.permutation()
        fill = req.full_untruncated_fill_ids
        assert fill.tolist() == [run.ids[i] for i in permutation][: len(fill)]
        state = admitted_state(req)
        detached: list[int] = []
        if state is not None:
            detached = self._check_detached(run, state)
            positions = run.prompt.positions(run.ids)
            assert state.layout.positions(0, state.layout.num_tokens).tolist() == [
                positions[i] for i in permutation[: state.layout.num_tokens]
            ]
        if req.req_pool_idx is None:
            return
        contents = sum(run.prompt.contents(run.ids), [])
        row = self.row(run)[: req.kv_committed_len].tolist()
        used = {*row[: req.cache_protected_len], *detached}
        assert used <= locked, "a used node is not locked"
        assert [self.written.get(slot) for slot in row] == [
            contents[i] for i in permutation[: len(row)]
        ]
        if req.cache_protected_len and len(req.prefix_indices) <= len(row):
            assert req.prefix_indices.tolist() == row[: len(req.prefix_indices)]

    def _check_detached(self, run: Running, state: Any) -> list[int]:
        """Slots of the request's detached tokens; what was computed is as it should be."""
        slots: list[int] = []
        for part, detached in [(None, state.sink), *state.heads.items()]:
            if detached is None:
                continue
            known = len(detached.tokens) if detached.is_planned else detached.num_cached
            contents = [self.written.get(slot) for slot in detached.slots.tolist()[:known]]
            assert contents == run.prompt.detached_contents(part)[:known]
            assert len(detached.slots) == len(detached.tokens)
            slots += detached.slots.tolist()
        return slots
