"""Is an answer right? By the dense oracle, with a few facts that hold of every answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..oracle import CachingOracle, Mode, Segment, lay_out
from . import replay
from .counts import check_counts
from .pieces import chatml
from .verdict import Fault, Tally, Wrong, require

TOLERANCE = 2e-4
"""Of logprobs in float32: of order 10, sums over thousands of terms."""

DEFAULT_MODE: Mode = "sink"
Rows = Callable[[Sequence[int], int], torch.Tensor]


@dataclass
class Judge:
    """Compares outcomes with what they must be.

    Args:
        oracle: of the served model.
        tokenizer: the model's; it renders chats as well.
        sink_token_id: what documents see in mode `sink`.
        tolerance: of logprobs.
    """

    oracle: CachingOracle
    tokenizer: Any
    sink_token_id: int
    tolerance: float = TOLERANCE
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._aborted_rids: set[str] = set()

    def fault(self, outcome: Mapping[str, Any]) -> Fault | None:
        """What is wrong with the outcome of a step, if anything."""
        self.tally.requests += 1
        try:
            self._check(outcome)
        except Wrong as wrong:
            return Fault(wrong.kind, outcome["id"], str(wrong))
        except Exception as error:  # a shape of answer that nobody expects
            return Fault("unreadable answer", outcome["id"], f"{error!r}: {str(outcome)[:2000]}")
        return None

    def note_abort(self, step: Mapping[str, Any]) -> None:
        """To be told of every step before its outcome."""
        if step["path"] == "/abort_request":
            self._aborted_rids.add(step["body"]["rid"])

    def _check(self, outcome: Mapping[str, Any]) -> None:
        path, status = outcome["path"], outcome["status"]
        if outcome["left"]:
            self.tally.left += 1
        require(outcome["error"] is None, "no answer", str(outcome["error"]))
        if outcome["judge"] is None:
            busy = path == "/flush_cache" and status == 400
            is_fine = busy or status == 200 or outcome["left"]
            require(is_fine, f"status {status}", str(outcome["payload"]))
            return
        if outcome["left"]:
            return
        may_be_aborted = outcome["body"].get("rid") in self._aborted_rids
        text = str(outcome["payload"])[:1000]
        if may_be_aborted and "abort" in text.lower() and not replay.answers(outcome):
            self.tally.aborted += 1
            return
        require(status == 200, f"status {status}", text)
        answers = replay.answers(outcome)
        prompts = [self.segments(prompt) for prompt in outcome["judge"]["prompts"]]
        choices = len(answers) // len(prompts)
        require(choices > 0, "no answer", text)
        self.tally.by_surface[path] = self.tally.by_surface.get(path, 0) + 1
        for i, answer in enumerate(answers):
            if answer["finish_reason"] == "abort":
                require(may_be_aborted, "aborted", text)
                self.tally.aborted += 1
            self._check_answer(outcome, prompts[i // choices], answer)
            self.tally.checked += 1

    def _check_answer(
        self, outcome: Mapping[str, Any], segments: Sequence[Segment], answer: Mapping[str, Any]
    ) -> None:
        if answer["finish_reason"] == "abort" and not answer.get("ids"):
            return  # before its first token
        check_counts(segments, answer, self.tally)
        body = outcome["body"]
        length = sum(len(ids) for _, ids in segments)
        rows = self.rows(outcome, segments, answer)
        is_greedy = (body.get("sampling_params") or body).get("temperature") == 0
        if "ids" not in answer:
            self._check_greedy_text(self.next_row(outcome, segments), answer)
            return
        ids = answer["ids"]
        require(len(ids) > 0, "no tokens", str(answer))
        told = len(answer["logprobs"])
        # SGLang loses the first token's logprob where it retracts a request before that token
        # has arrived (output_streamer.py: no token yet, counted as sent as if it were one).
        retracted = (answer.get("meta") or {"num_retractions": 1})["num_retractions"] > 0
        is_complete = told == len(ids) or (retracted and told == len(ids) - 1)
        require(is_complete, "logprobs", f"{told} of {len(ids)} tokens")
        first = length - 1
        if (answer.get("meta") or {}).get("input_token_logprobs"):
            first = min(first, body["logprob_start_len"])
        every = rows(ids[:-1], first)
        self._check_tokens(every[length - 1 - first :], ids, answer, is_greedy)
        if first < length - 1:
            prompt = [token for _, tokens in segments for token in tokens]
            self._check_prompt_logprobs(every, first, prompt, answer["meta"])

    def rows(
        self, outcome: Mapping[str, Any], segments: Sequence[Segment], answer: Mapping[str, Any]
    ) -> Rows:
        """The oracle: rows of the prompt and what follows it, from a token of it on."""
        mode = outcome["judge"].get("chunk_context") or DEFAULT_MODE
        links = outcome["judge"].get("chunk_link_tokens") or 0

        def rows(more: Sequence[int], start: int) -> torch.Tensor:
            continued = [*segments, ("text", list(more))]
            return self.oracle.logprobs(continued, mode, self.sink_token_id, start, links)

        return rows

    def next_row(
        self, outcome: Mapping[str, Any], segments: Sequence[Segment]
    ) -> Callable[[Sequence[int]], torch.Tensor]:
        """The oracle: the row of the last token of the prompt and what follows it."""
        mode = outcome["judge"].get("chunk_context") or DEFAULT_MODE
        links = outcome["judge"].get("chunk_link_tokens") or 0
        prompt = [(kind, ids) for kind, ids in segments if ids]

        def row(more: Sequence[int]) -> torch.Tensor:
            continued = [*prompt, ("text", list(more))] if more else prompt
            tokens = lay_out(continued, mode, self.sink_token_id, links)
            return self.oracle.last_logprobs(tokens, 1)[0]

        return row

    def expected_logprobs(
        self, outcome: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> list[float]:
        """What the tokens of a step's first answer should have had."""
        ids = answer["ids"]
        segments = self.segments(outcome["judge"]["prompts"][0])
        start = sum(len(tokens) for _, tokens in segments) - 1
        rows = self.rows(outcome, segments, answer)(ids[:-1], start)
        return rows[torch.arange(len(ids)), torch.tensor(ids)].tolist()

    def _check_tokens(
        self, rows: torch.Tensor, ids: Sequence[int], answer: Mapping[str, Any], is_greedy: bool
    ) -> None:
        """Teacher-forced: each token's logprob, after the tokens that came before it."""
        lost = len(ids) - len(answer["logprobs"])
        self.tally.lost_logprobs += lost
        rows, ids = rows[lost:], ids[lost:]
        if not ids:
            return
        got = torch.tensor(answer["logprobs"])
        errors = (got - rows[torch.arange(len(ids)), torch.tensor(ids)]).abs()
        if is_greedy:  # up to near-ties
            errors = torch.maximum(errors, rows.max(dim=-1).values - got)
        meta = answer.get("meta") or {}
        for i, top in enumerate(meta.get("output_top_logprobs") or []):
            tokens = torch.tensor([token for _, token, _ in top])
            values = torch.tensor([logprob for logprob, _, _ in top])
            errors[i] = max(errors[i], (values - rows[i, tokens]).abs().max())
        self._require_small(errors, ids, answer["logprobs"])
        self.tally.tokens += len(ids)

    def _check_prompt_logprobs(
        self, rows: torch.Tensor, start: int, prompt: Sequence[int], meta: Mapping[str, Any]
    ) -> None:
        given = meta["input_token_logprobs"]
        ids = [token for _, token, _ in given]
        require(ids == list(prompt[start:]), "prompt logprobs", "are of other tokens")
        got = torch.tensor([logprob for logprob, _, _ in given[1:]])
        expected = rows[torch.arange(len(got)), torch.tensor(ids[1:])]
        self._require_small((got - expected).abs(), ids[1:], got.tolist())

    def _require_small(
        self, errors: torch.Tensor, ids: Sequence[int], logprobs: Sequence[float]
    ) -> None:
        worst = errors.max().item() if len(errors) else 0.0
        require(
            worst <= self.tolerance,  # not so where it is not a number, either
            "wrong logprobs",
            f"off by {worst:.1e} at token {int(errors.argmax())} of {list(ids)}: {logprobs}",
        )
        self.tally.largest_error = max(self.tally.largest_error, worst)

    def _check_greedy_text(
        self, next_row: Callable[[Sequence[int]], torch.Tensor], answer: Mapping[str, Any]
    ) -> None:
        """Some greedy continuation (there are several where tokens tie) is this text."""
        count = answer["usage"]["completion_tokens"]
        wanted = printable(answer["text"])
        seen: list[str] = []
        paths: list[list[int]] = [[]]
        while paths:
            path = paths.pop()
            is_whole = len(path) == count
            if is_whole:
                text = self.tokenizer.decode(path, skip_special_tokens=True)
                if printable(text) == wanted:
                    self.tally.tokens += count
                    return
                seen.append(text)
                continue
            row = next_row(path)
            ties = (row >= row.max() - 2 * self.tolerance).nonzero()[:, 0].tolist()
            paths += [[*path, token] for token in ties]
        raise Wrong("wrong text", f"{answer['text']!r}; greedy is {' or '.join(map(repr, seen))}")

    def segments(self, prompt: Any) -> list[Segment]:
        """Token ids of a prompt: pieces of text or of ids, or the turns of a chat."""
        pieces = prompt if isinstance(prompt, list) else chatml(prompt["turns"])
        return [
            (
                kind,
                self.tokenizer.encode(content, add_special_tokens=False)
                if isinstance(content, str)
                else content,
            )
            for kind, content in pieces
        ]


def printable(text: str) -> str:
    """Without what may differ by where a stream was cut: characters not yet complete."""
    return text.replace("\ufffd", "")
