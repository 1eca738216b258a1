"""One question in one mode: what is asked, and what is kept of the answers.

Three requests, in this order:

1. the prompt, answered greedily;
2. the prompt followed by the gold answer, of which only log-probabilities are wanted
   (teacher forcing): the NLL, and the distribution at the answer's first position;
3. the prompt with its documents in another order, answered greedily. Its documents are in the
   cache by now, so its reuse is what a mode gives to documents that come back elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sglang_lazy.evaluate.client import Client, RequestRefused
from sglang_lazy.evaluate.dataset import Document, Example
from sglang_lazy.evaluate.divergence import lumped_kl
from sglang_lazy.evaluate.metrics import best, contains, exact_match, f1, normalize_answer
from sglang_lazy.evaluate.modes import FULL, Mode
from sglang_lazy.evaluate.prompt import PromptWriter
from sglang_lazy.request.segments import SegmentedIds

LOGPROB_DIGITS = 6
"""Kept of the likeliest tokens' log-probabilities: more is float32 noise."""


@dataclass(frozen=True)
class Settings:
    """What figures depend on besides the question and the mode.

    Attributes:
        answer_after: where an answer has this text, only what follows its last occurrence is
            judged: for models that show their work first.
        lora_path: the name of the LoRA adapter that answers; None: the model itself.
    """

    max_new_tokens: int = 32
    stop: tuple[str, ...] = ()
    answer_after: str = ""
    top_logprobs: int = 256
    reorder: bool = True
    seed: int = 0
    lora_path: str | None = None


@dataclass(frozen=True)
class NextToken:
    """The likeliest tokens at the answer's first position, log-probabilities in nats."""

    ids: list[int]
    logprobs: list[float]

    @property
    def by_id(self) -> dict[int, float]:
        return dict(zip(self.ids, self.logprobs, strict=True))


@dataclass(frozen=True)
class Answer:
    """A greedy answer and what its prompt found in the cache.

    Attributes:
        prompt_tokens: length of the prompt.
        cached_tokens: how many of them were not computed.
        document_tokens: how many of them were marked as documents.
        cached_document_tokens: how many of those were not computed.
    """

    text: str
    prompt_tokens: int
    cached_tokens: int
    document_tokens: int
    cached_document_tokens: int


@dataclass(frozen=True)
class Measurement:
    """One question in one mode.

    Attributes:
        contains, exact_match, f1: of the answer, see ``metrics``.
        nll: -log P(gold answer | prompt) in nats, summed over its tokens.
        answer_tokens: number of those tokens.
        kl: divergence from full attention, see ``divergence``; None without full attention.
        rest: mass of full attention's tokens that ``kl`` does not tell apart.
        next_token: of full attention only; the other modes are compared with it.
        reordered: the answer to the same documents in another order, if there is one.
        agrees: whether both answers have the same normal form.
        reordered_contains: ``contains`` of the reordered answer.
    """

    answer: Answer
    contains: float
    exact_match: float
    f1: float
    nll: float
    answer_tokens: int
    kl: float | None = None
    rest: float | None = None
    next_token: NextToken | None = None
    reordered: Answer | None = None
    agrees: float | None = None
    reordered_contains: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Measurement:
        nested = {"answer": Answer, "reordered": Answer, "next_token": NextToken}
        return cls(**{n: nested[n](**value) if n in nested else value for n, value in data.items()})


@dataclass
class Examiner:
    """Asks a client questions.

    Attributes:
        knows_link_tokens: whether the server takes ``chunk_link_tokens``.
    """

    client: Client
    writer: PromptWriter
    settings: Settings = field(default_factory=Settings)
    knows_link_tokens: bool = False

    async def measure(
        self, example: Example, mode: Mode, full: Measurement | None = None
    ) -> Measurement:
        """Ask one question in one mode.

        Args:
            full: the same question with full attention, which others are compared with.

        Raises:
            RequestRefused: a request failed.
            ServerUnreachable: nobody answers.
            ValueError: the prompt cannot be written.
        """
        documents = example.documents if mode.has_documents else ()
        prompt = self.writer.prompt(documents, example.question)
        answer = await self._answer(prompt, mode)
        nll, answer_tokens, next_token = await self._score(prompt, mode, example)
        is_full = mode.name == FULL
        reference = next_token if is_full else full.next_token if full else None
        divergence = lumped_kl(reference.by_id, next_token.by_id) if reference else None
        final = self._final(answer)
        measurement = Measurement(
            answer=answer,
            contains=best(contains, final, example.answers),
            exact_match=best(exact_match, final, example.answers),
            f1=best(f1, final, example.answers),
            nll=nll,
            answer_tokens=answer_tokens,
            kl=divergence.kl if divergence else None,
            rest=divergence.rest if divergence else None,
            next_token=next_token if is_full else None,
        )
        if not self.settings.reorder or len(documents) < 2:
            return measurement
        other_prompt = self.writer.prompt(self.reordered(example), example.question)
        other = await self._answer(other_prompt, mode)
        other_final = self._final(other)
        return replace(
            measurement,
            reordered=other,
            agrees=float(normalize_answer(final) == normalize_answer(other_final)),
            reordered_contains=best(contains, other_final, example.answers),
        )

    def reordered(self, example: Example) -> Sequence[Document]:
        """The documents in another order, the same one for the same seed and example."""
        rng = random.Random(f"{self.settings.seed} {example.key}")
        order = list(range(len(example.documents)))
        while order == sorted(order):
            rng.shuffle(order)
        return [example.documents[i] for i in order]

    def _final(self, answer: Answer) -> str:
        after = self.settings.answer_after
        return answer.text.rpartition(after)[2] if after else answer.text

    async def _answer(self, prompt: SegmentedIds, mode: Mode) -> Answer:
        sampling: dict[str, Any] = {
            "temperature": 0,
            "max_new_tokens": self.settings.max_new_tokens,
        }
        if self.settings.stop:
            sampling["stop"] = list(self.settings.stop)
        output = await self._generate(prompt, mode, sampling_params=sampling)
        meta = output["meta_info"]
        return Answer(
            text=output["text"].strip(),
            prompt_tokens=meta["prompt_tokens"],
            cached_tokens=meta["cached_tokens"],
            document_tokens=sum(end - start for start, end in _marked(prompt, mode)),
            cached_document_tokens=meta.get("chunk_cache", {}).get("cached_tokens", 0),
        )

    async def _score(
        self, prompt: SegmentedIds, mode: Mode, example: Example
    ) -> tuple[float, int, NextToken]:
        """NLL of the gold answer, its number of tokens, the distribution of its first token."""
        gold = self.writer.answer(example.gold)
        output = await self._generate(
            SegmentedIds([*prompt, *gold], prompt.document_spans),
            mode,
            sampling_params={"temperature": 0, "max_new_tokens": 1},
            return_logprob=True,
            logprob_start_len=len(prompt) - 1,
            top_logprobs_num=self.settings.top_logprobs,
        )
        meta = output["meta_info"]
        # The first returned token is the prompt's last, and has no predecessor to predict it.
        returned = meta["input_token_logprobs"][1:]
        if [token for _, token, _ in returned] != gold:
            raise RequestRefused("the server returned log-probabilities of other tokens")
        likeliest = meta["input_top_logprobs"][1]
        next_token = NextToken(
            [token for _, token, _ in likeliest],
            [round(logprob, LOGPROB_DIGITS) for logprob, _, _ in likeliest],
        )
        return -sum(logprob for logprob, _, _ in returned), len(gold), next_token

    async def _generate(self, prompt: SegmentedIds, mode: Mode, **fields: Any) -> dict[str, Any]:
        """Send a prompt, its documents marked if the mode marks them."""
        spans = _marked(prompt, mode)
        if spans:
            fields["document_spans"] = [list(span) for span in spans]
            fields.update(mode.fields(self.knows_link_tokens))
        if self.settings.lora_path is not None:
            fields["lora_path"] = self.settings.lora_path
        output = await self.client.generate({"input_ids": list(prompt), **fields})
        reason = output["meta_info"].get("finish_reason") or {}
        if reason.get("type") == "abort":
            raise RequestRefused(reason.get("message") or "the request was aborted")
        seen = output["meta_info"].get("chunk_cache", {}).get("documents", 0)
        if seen != len(spans):
            raise RequestRefused(
                f"the server saw {seen} of the prompt's {len(spans)} documents: "
                "is it started with --chunk-cache lazy?"
            )
        return output


def _marked(prompt: SegmentedIds, mode: Mode) -> Sequence[tuple[int, int]]:
    return prompt.document_spans if mode.marks_documents else ()
