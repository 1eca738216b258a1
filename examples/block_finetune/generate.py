"""Write questions about invented documents as JSON lines.

    python generate.py --split test --per-kind 500 --seed 1 > questions.jsonl

Each line has ``question``, ``documents``, ``answers`` and ``kind``, which
``python -m sglang_lazy.evaluate`` reads, and ``target``, ``template``, ``split`` and ``things``.
The same arguments give the same lines.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from typing import Any

from questions import KINDS, MAKERS, Question
from vocabulary import SPLITS, Split
from world import World, make_world


def examples(
    seed: int | str, split: Split, num_questions: int, kinds: tuple[str, ...] = KINDS
) -> Iterator[tuple[World, list[Question]]]:
    """Worlds without end, each with up to ``num_questions`` different questions."""
    rng = random.Random(f"{split}-{seed}")
    while True:
        world = make_world(rng, split)
        found: dict[str, Question] = {}
        for i in range(2 * num_questions):
            question = MAKERS[kinds[i % len(kinds)]](rng, world)
            if question and len(found) < num_questions:
                found.setdefault(question.text, question)
        if found:
            yield world, list(found.values())


def evaluation_set(
    seed: int | str, split: Split, per_kind: int, kinds: tuple[str, ...] = KINDS
) -> list[dict[str, Any]]:
    """``per_kind`` questions of each kind, each about documents of its own."""
    rows = []
    for kind in kinds:
        source = examples(f"{seed}-{kind}", split, 1, (kind,))
        for number in range(per_kind):
            world, (question,) = next(source)
            rows.append(
                {
                    "id": f"{kind}-{number}",
                    "question": question.text,
                    "documents": [t.document for t in world.things],
                    "answers": question.answers,
                    "kind": kind,
                    "target": question.target,
                    "template": question.template,
                    "things": question.things,
                    "split": split,
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--per-kind", type=int, default=500, help="questions of each kind")
    parser.add_argument("--seed", default="1")
    parser.add_argument(
        "--without-target",
        action="store_true",
        help="for models that were not trained to answer in its form",
    )
    arguments = parser.parse_args()
    for row in evaluation_set(arguments.seed, arguments.split, arguments.per_kind):
        if arguments.without_target:
            del row["target"]
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
