"""Batches of prompts for training: worlds without end, several questions each, all modes mixed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dense import Branch, Dense, Mode, collate, flatten
from generate import examples
from prompts import PromptBuilder, Style, draw_style, encode
from questions import TRAINED, Question
from torch.utils.data import IterableDataset, get_worker_info
from vocabulary import Split
from world import World

from sglang_lazy.request.segments import SegmentedPrompt, TextSegment


class Encoder:
    """From worlds and questions to dense sequences, through the engine's own tokenising."""

    def __init__(self, tokenizer: Any, sink_token_id: int | None) -> None:
        self.tokenizer = tokenizer
        self.sink_token_id = sink_token_id
        self.builder = PromptBuilder(tokenizer)
        self._end = [tokenizer.eos_token_id]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def encode(
        self, world: World, questions: list[Question], mode: Mode, style: Style | None = None
    ) -> Dense:
        """One sequence with a branch for each question."""
        style = style or Style()
        trunk = self.builder.trunk([t.document for t in world.things], style)
        branches = []
        for q in questions:
            tail = self.builder.tail(q.text, style, q.opening)
            target = f" {q.answers[0]}" if q.opening else q.target
            branches.append(Branch(self._ids(tail), self._ids(target) + self._end))
        prompt = SegmentedPrompt([*trunk, TextSegment("\n", False)])
        return flatten(encode(prompt, self.tokenizer), mode, self.sink_token_id, branches)


@dataclass
class TrainingBatches(IterableDataset):
    """Padded batches of about ``tokens`` tokens, for a DataLoader with ``batch_size=None``.

    Batches come in few shapes: as long as a multiple of ``multiple``, and filled with prompts of
    about this length.

    Attributes:
        weights: how often each mode is drawn.
        questions: questions about the documents of one prompt.
        rank: of the process; each draws worlds of its own.
    """

    encoder: Encoder
    seed: int
    tokens: int
    weights: dict[Mode, float]
    questions: int = 14
    multiple: int = 128
    split: Split = "train"
    rank: int = 0

    def __iter__(self) -> Iterator[Dense]:
        worker = get_worker_info()
        name = f"{self.seed}-{self.rank}-{worker.id if worker else 0}"
        rng = random.Random(name)
        source = examples(name, self.split, self.questions, TRAINED)
        modes, weights = list(self.weights), list(self.weights.values())
        waiting: dict[int, list[Dense]] = {}
        while True:
            world, questions = next(source)
            (mode,) = rng.choices(modes, weights)
            sequence = self.encoder.encode(world, questions, mode, draw_style(rng))
            length = -(-len(sequence.input_ids) // self.multiple) * self.multiple
            alike = waiting.setdefault(length, [])
            alike.append(sequence)
            if (len(alike) + 1) * length > self.tokens:
                yield collate(alike, self.encoder.tokenizer.pad_token_id, self.multiple)
                alike.clear()
