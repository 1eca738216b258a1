"""A server under test whose every answer is compared with the oracle."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..engines import Completion, Server
from ..oracle import Mode, Oracle
from .prompts import Prompt

TOP_LOGPROBS = 5
GREEDY = {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True}


def scored(**sampling: Any) -> dict[str, Any]:
    """Request fields: greedy sampling, with log-probabilities of what was sampled."""
    return {
        "sampling_params": {**GREEDY, **sampling},
        "return_logprob": True,
        "top_logprobs_num": TOP_LOGPROBS,
    }


def largest_error(rows: torch.Tensor, completion: Completion) -> float:
    """Largest difference of a returned logprob from the oracle's rows, one row a token."""
    assert len(completion.token_ids) == len(completion.top_logprobs) > 0
    errors = []
    for row, token, logprob, top in zip(
        rows,
        completion.token_ids,
        completion.logprobs,
        completion.top_logprobs,
        strict=True,
    ):
        assert len(top) == TOP_LOGPROBS
        errors.append(abs(logprob - row[token].item()))
        errors += [abs(value - row[other].item()) for other, value in top.items()]
        # The greedy token and the last of the top k are right up to near-ties.
        errors.append(row.max().item() - row[token].item())
        errors.append(row.topk(TOP_LOGPROBS).values[-1].item() - min(top.values()))
    return max(errors)


@dataclass(frozen=True)
class Subject:
    """Asks a server and checks the answers.

    Attributes:
        mode: what documents see before themselves.
        overrides: whether `mode` is asked for per request, or is the server's own.
        link_tokens: asked for per request, unless None: then the server has none.
    """

    server: Server
    oracle: Oracle
    sink_token_id: int
    tolerance: float
    mode: Mode
    overrides: bool = False
    link_tokens: int | None = None

    def with_mode(self, mode: Mode) -> "Subject":
        """The same server, with `mode` asked for in every request."""
        return replace(self, mode=mode, overrides=True)

    def with_link_tokens(self, link_tokens: int) -> "Subject":
        """The same server, with so many link tokens asked for in every request."""
        return replace(self, link_tokens=link_tokens)

    def fields(self, prompt: Prompt) -> dict[str, Any]:
        fields = prompt.request()
        if prompt.document_spans and self.overrides:
            fields["chunk_context"] = self.mode
        if prompt.document_spans and self.link_tokens is not None:
            fields["chunk_link_tokens"] = self.link_tokens
        return fields

    def rows(self, prompt: Prompt, start: int = 0) -> torch.Tensor:
        """The oracle's logprobs `[num_tokens - start, vocab_size]`."""
        return self.oracle.logprobs(
            prompt.segments, self.mode, self.sink_token_id, start, self.link_tokens or 0
        )

    def check(self, prompt: Prompt, completion: Completion) -> None:
        rows = self.rows(prompt.then(completion.token_ids[:-1]), start=len(prompt) - 1)
        error = largest_error(rows, completion)
        assert error <= self.tolerance, f"logprobs are off by {error:.2e} > {self.tolerance:.2e}"

    def ask(self, prompt: Prompt, **sampling: Any) -> Completion:
        """One greedy completion, equal to the oracle's."""
        completion = self._generate(prompt, sampling)
        self.check(prompt, completion)
        return completion

    def ask_at_once(self, prompts: Sequence[Prompt], **sampling: Any) -> list[Completion]:
        """Concurrent requests, each equal to the oracle's."""
        with ThreadPoolExecutor(max_workers=len(prompts)) as pool:
            completions = list(pool.map(lambda p: self._generate(p, sampling), prompts))
        for prompt, completion in zip(prompts, completions, strict=True):
            self.check(prompt, completion)
        return completions

    def _generate(self, prompt: Prompt, sampling: Mapping[str, Any]) -> Completion:
        return Completion.of(self.server.generate(**self.fields(prompt), **scored(**sampling)))


def assert_reuse(completion: Completion, cached_tokens: int, documents: int, hits: int) -> None:
    """Exactly this much came from the cache."""
    chunk_cache = completion.chunk_cache
    got = completion.cached_tokens, chunk_cache["documents"], chunk_cache["hits"]
    expected = cached_tokens, documents, hits
    assert got == expected, f"(cached_tokens, documents, hits) = {got}, expected {expected}"
    assert chunk_cache["cached_tokens"] <= cached_tokens
