"""Random traffic, the same for the same seed: an endless schedule as replay.py plays it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .pieces import Piece, merged, message
from .prompts import MAX_PROMPT_TOKENS, PREAMBLES, Prompts

SEPARATOR = "<|next|>"
POOL_TOKENS = 720
"""Slots of the server's KV pool: about three prompts."""

SERVER = {
    "chunk_cache": "lazy",
    "chunk_separator": SEPARATOR,
    "max_total_tokens": POOL_TOKENS,
    "chunked_prefill_size": 48,
    "max_running_requests": 8,
    "schedule_conservativeness": 0.01,  # admit what may have to be retracted
    "enable_priority_scheduling": True,
    "default_priority_value": 0,
    "enable_metrics": True,
}
"""Arguments of the server that the traffic is made for."""

Step = dict[str, Any]


@dataclass
class Traffic:
    """Iterating gives step after step.

    Args:
        seed: everything random comes from it.
        tokenizer: the model's.
        faults: a share of requests whose clients leave, or that are aborted.
    """

    seed: int
    tokenizer: Any
    faults: float = 0.2

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._prompts = Prompts(self._rng, self.tokenizer)
        self._conversations: list[tuple[int, str, Any]] = []  # to be continued: step, kind, turns
        self._rids: list[str] = []
        self._next_id = 0

    def __iter__(self) -> Iterator[Step]:
        while True:
            yield self._step()

    def _step(self) -> Step:
        step_id, self._next_id = self._next_id, self._next_id + 1
        rng = self._rng
        if rng.random() < 0.03:
            self._prompts.replace_document()
        chance = rng.random()
        if chance < 0.012:
            step: Step = {"path": "/flush_cache", "body": {}}
        elif chance < 0.02:
            mode = rng.choice(("in_place", "retract"))
            step = {"path": "/pause_generation", "body": {"mode": mode}}
            step |= {"then": ["/continue_generation", {}], "wait": rng.choice((0.01, 0.1))}
        elif chance < 0.02 + self.faults / 4 and self._rids:
            recent = min(rng.randint(1, 3), len(self._rids))
            step = {"path": "/abort_request", "body": {"rid": self._rids[-recent]}}
            del self._rids[:-3]
        else:
            step = self._request(step_id)
        return {"id": step_id, "delay": round(rng.choice((0, 0, 0.005, 0.03, 0.1)), 3), **step}

    def _request(self, step_id: int) -> Step:
        rng = self._rng
        make = rng.choices(
            (self._ids, self._segments, self._batch, self._chat, self._completion, self._anthropic,
             self._separated),
            (30, 20, 4, 24, 8, 8, 6),
        )[0]  # fmt: skip
        step = make(step_id)
        body = step["body"]
        if make in (self._ids, self._segments, self._chat) and body.get("n", 1) == 1:
            has_n = body.get("sampling_params", {}).get("n", 1) > 1
            if not has_n:
                body["rid"] = f"soak-{self.seed}-{step_id}"
                self._rids.append(body["rid"])
        if make != self._anthropic and rng.random() < 0.3:
            body["priority"] = rng.choice((-20, 0, 0, 20))
        if rng.random() < self.faults:
            if body.get("stream") and rng.random() < 0.5:
                step["leave_after_events"] = rng.randint(1, 4)
            else:
                step["leave_after"] = round(rng.choice((0.01, 0.05, 0.1, 0.3)) * rng.random(), 4)
        return step

    def _options(self, pieces: list[Piece]) -> dict[str, Any]:
        """Overrides for documents, where there are any."""
        if not any(kind == "document" for kind, _ in pieces):
            return {}
        options: dict[str, Any] = {}
        if self._rng.random() < 0.6:
            options["chunk_context"] = self._rng.choice(("none", "sink", "preamble"))
        if self._rng.random() < 0.4:
            options["chunk_link_tokens"] = self._rng.choice((0, 1, 2, 3, 8, 20))
        return options

    def _answer_tokens(self) -> int:
        return self._rng.choice((1, 2, 3, 4, 4, 6, 8, 16, 40, 90))

    def _tenant(self) -> dict[str, Any]:
        return {"extra_key": self._rng.choice("ab")} if self._rng.random() < 0.1 else {}

    # Surfaces.

    def _generate(self, prompt: dict[str, Any], options: dict[str, Any], judge: Any) -> Step:
        rng = self._rng
        sampling: dict[str, Any] = {"temperature": 0, "max_new_tokens": self._answer_tokens()}
        sampling["ignore_eos"] = True
        if rng.random() < 0.1:
            sampling |= {"n": rng.randint(2, 3), "max_new_tokens": rng.randint(1, 8)}
        if rng.random() < 0.15:
            sampling["temperature"] = 1  # logprobs are of what is sampled from
        body = {**prompt, **options, **self._tenant(), "sampling_params": sampling}
        body |= {"return_logprob": True, "top_logprobs_num": 5}
        if rng.random() < 0.1 and "n" not in sampling and judge:
            length = self._prompts.length_of(judge)
            body["logprob_start_len"] = rng.choice((0, rng.randrange(length)))
        elif rng.random() < 0.25 and "n" not in sampling:
            body["stream"] = True
        return {"path": "/generate", "body": body, "judge": {"prompts": [judge], **options}}

    def _ids(self, step_id: int) -> Step:
        """`input_ids` with `document_spans`; a third of them go on from an earlier answer."""
        earlier = [c for c in self._conversations[-6:] if c[1] == "ids"]
        if earlier and self._rng.random() < 0.35:
            before, _, (pieces, options) = self._rng.choice(earlier)
            room = MAX_PROMPT_TOKENS - sum(len(ids) for _, ids in pieces) - 40
            more = self._prompts.encoded(self._prompts.pieces(max(room, 30)))
            pieces = [*pieces, ["text", [{"answer_ids": before}]], *more]
        else:
            pieces = self._prompts.encoded(self._prompts.pieces())
            options = self._options(pieces)
        if sum(len(ids) for _, ids in pieces) < MAX_PROMPT_TOKENS - 60:
            self._conversations.append((step_id, "ids", (pieces, options)))
        prompt: dict[str, Any] = {"input_ids": [t for _, ids in pieces for t in ids]}
        if any(kind == "document" for kind, _ in pieces):
            # Where documents lie behind an answer is known when that is.
            prompt["document_spans"] = {"spans_of": pieces}
        step = self._generate(prompt, options, pieces)
        step["body"]["sampling_params"]["max_new_tokens"] = min(
            40, step["body"]["sampling_params"]["max_new_tokens"]
        )
        return step

    def _segments(self, step_id: int) -> Step:
        pieces = self._prompts.pieces()
        segments = [{kind: text} for kind, text in pieces]
        return self._generate({"segments": segments}, self._options(pieces), pieces)

    def _batch(self, step_id: int) -> Step:
        batch = [self._prompts.pieces(110), self._prompts.pieces(110)]
        segments = [[{kind: text} for kind, text in pieces] for pieces in batch]
        step = self._generate({"segments": segments}, {}, None)
        step["body"] |= {"stream": False, "logprob_start_len": -1}
        step["body"]["sampling_params"] |= {"n": 1, "max_new_tokens": self._rng.randint(1, 20)}
        step["judge"]["prompts"] = batch
        return step

    def _separated(self, step_id: int) -> Step:
        pieces = [p for p in self._prompts.pieces() if p[0] == "document"]
        question = ["text", " " + self._prompts.text(3)]
        parts = ["Read." if self._rng.random() < 0.5 else "", *(d for _, d in pieces), question[1]]
        if not pieces:
            parts = [question[1]]
        head = [["text", parts[0]]] if pieces and parts[0] else []
        pieces = [*head, *pieces, question]
        options = self._options(pieces)
        return self._generate({"text": SEPARATOR.join(parts)}, options, pieces)

    def _chat(self, step_id: int) -> Step:
        """Document parts, or `documents` beside the messages; a third are later turns."""
        rng = self._rng
        earlier = [c for c in self._conversations[-6:] if c[1] == "chat"]
        if earlier and rng.random() < 0.35:
            before, _, (turns, options) = rng.choice(earlier)
            more = self._prompts.pieces(40) if options else [["text", self._prompts.text(5)]]
            turns = [*turns, ["assistant", {"answer_text": before}], ["user", more]]
        else:
            user = self._prompts.pieces(MAX_PROMPT_TOKENS - 40)
            turns = [["system", [["text", rng.choice(PREAMBLES)]]], ["user", user]]
            options = self._options(user)
        length = sum(self._prompts.length_of(c) for _, c in turns if isinstance(c, list))
        max_tokens = min(self._answer_tokens(), 30)
        if length < MAX_PROMPT_TOKENS - 100:
            self._conversations.append((step_id, "chat", (turns, options)))
        body = {"model": "m", "messages": [message(*turn) for turn in turns], **options}
        body |= {"max_tokens": max_tokens, "ignore_eos": True, **self._tenant()}
        body["temperature"] = 0
        if rng.random() < 0.3:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        else:
            body |= {"logprobs": True, "top_logprobs": 5}
            body |= {"return_meta_info": True, "return_token_ids": True}
            if rng.random() < 0.1:
                body |= {"n": 2, "temperature": 1}
        listed = [p for p in turns[1][1] if p[0] == "document"]
        is_listed = len(listed) > 0 and rng.random() < 0.3 and len(turns) == 2
        if is_listed:
            texts = [p for p in turns[1][1] if p[0] == "text"]
            rest = "".join(text for _, text in texts)
            body["documents"] = [text for _, text in listed]
            body["messages"][1]["content"] = rest
            turns = [turns[0], ["user", merged([*listed, ["text", "\n\n" + rest]])]]
            if self._conversations and self._conversations[-1][0] == step_id:
                self._conversations.pop()
        return {
            "path": "/v1/chat/completions",
            "body": body,
            "judge": {"prompts": [{"turns": turns}], **options},
        }

    def _completion(self, step_id: int) -> Step:
        pieces = self._prompts.pieces()
        options = self._options(pieces)
        body = {"model": "m", "prompt": "", "segments": [{k: t} for k, t in pieces], **options}
        body |= {"max_tokens": self._answer_tokens(), "temperature": 0, "ignore_eos": True}
        body |= {"logprobs": 1, "return_token_ids": True}
        return {"path": "/v1/completions", "body": body, "judge": {"prompts": [pieces], **options}}

    def _anthropic(self, step_id: int) -> Step:
        pieces = self._prompts.pieces(MAX_PROMPT_TOKENS - 40)
        options = self._options(pieces)
        content = [
            {"type": "text", "text": text}
            if kind == "text"
            else {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": text},
            }
            for kind, text in pieces
        ]
        system = self._rng.choice(PREAMBLES).strip()
        body = {"model": "m", "system": system, "max_tokens": self._rng.randint(1, 9), **options}
        body |= {"temperature": 0, "messages": [{"role": "user", "content": content}]}
        body["stream"] = self._rng.random() < 0.3
        turns = [["system", [["text", system]]], ["user", pieces]]
        return {
            "path": "/v1/messages",
            "body": body,
            "judge": {"prompts": [{"turns": turns}], **options},
        }
