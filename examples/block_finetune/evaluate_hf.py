"""Answers of a Hugging Face model under the engine's mask: batched, greedy.

    python evaluate_hf.py MODEL [--adapter DIR] --questions questions.jsonl --modes full sink

The served model answers the same (README.md); this is for a machine where training just ended.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import general_text
import torch
from dense import TEXT, Dense, Mode, collate, flatten
from generate import evaluation_set
from model import (
    additive_mask,
    causal_lm,
    hidden_states,
    load_base,
    load_tokenizer,
    merged,
    negative_log_likelihood,
    to_device,
)
from prompts import PromptBuilder, encode
from questions import contains_answer, is_right

MAX_NEW_TOKENS = 64
MODES: tuple[Mode, ...] = get_args(Mode)


@torch.inference_mode()
def generate(model: Any, sequences: Sequence[Dense], tokenizer: Any) -> list[str]:
    """Greedy continuations of prompts, which were laid out without branches."""
    device = next(model.parameters()).device
    dtype = next(model.parameters()).dtype
    end = tokenizer.eos_token_id
    batch = to_device(collate(sequences, tokenizer.pad_token_id), device)
    lengths = torch.tensor([len(s.input_ids) for s in sequences], device=device)
    output = hidden_states(model, batch, dtype, use_cache=True)
    cache = output.past_key_values
    rows = torch.arange(len(sequences), device=device)
    hidden = output.last_hidden_state[rows, lengths - 1]
    position = torch.as_tensor(batch.position)[rows, lengths - 1]
    # What an answer's token sees: whatever text sees, and the answer before it.
    seen = (torch.as_tensor(batch.block) == TEXT) | (torch.as_tensor(batch.seen_by_text) == 1)
    done = torch.zeros(len(sequences), dtype=torch.bool, device=device)
    tokens = []
    for _ in range(MAX_NEW_TOKENS):
        token = causal_lm(model).lm_head(hidden).argmax(-1)
        token = torch.where(done, end, token)
        done |= token == end
        tokens.append(token)
        if bool(done.all()):
            break
        position = position + 1
        seen = torch.nn.functional.pad(seen, (0, 1), value=True)
        output = causal_lm(model).model(
            input_ids=token[:, None],
            position_ids=position[:, None],
            attention_mask=additive_mask(seen[:, None, None], dtype),
            past_key_values=cache,
            use_cache=True,
        )
        hidden = output.last_hidden_state[:, -1]
    texts = tokenizer.batch_decode(torch.stack(tokens, 1), skip_special_tokens=True)
    return [t.strip() for t in texts]


def answer(
    model: Any, tokenizer: Any, sink_token_id: int | None, rows: list[dict[str, Any]], mode: Mode,
    batch_size: int = 250,
) -> list[str]:  # fmt: skip
    """The model's answers to ``rows`` of ``generate.evaluation_set``."""
    builder = PromptBuilder(tokenizer)
    sequences = [
        flatten(
            encode(builder.prompt(row["documents"], row["question"]), tokenizer),
            mode,
            sink_token_id,
        )
        for row in rows
    ]
    answers = []
    for start in range(0, len(rows), batch_size):
        answers += generate(model, sequences[start : start + batch_size], tokenizer)
    return answers


def read_questions(path: Path) -> list[dict[str, Any]]:
    """Questions as JSON lines; those without ``id`` are numbered, without ``kind`` they are "all".

    Raises ``ValueError`` for a line that lacks ``question``, ``documents`` or ``answers``.
    """
    rows = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        row = {"id": str(number), "kind": "all", **json.loads(line)}
        if missing := {"question", "documents", "answers"} - row.keys():
            raise ValueError(f"{path}, line {number} lacks {', '.join(sorted(missing))}")
        rows.append(row)
    return rows


def scores(
    rows: list[dict[str, Any]],
    answers: list[str],
    judge: Callable[[str, list[str]], bool] = is_right,
) -> dict[str, float]:
    """Points per kind."""
    kinds: dict[str, list[bool]] = {}
    for row, text in zip(rows, answers, strict=True):
        kinds.setdefault(row["kind"], []).append(judge(text, row["answers"]))
    return {kind: round(100 * sum(right) / len(right), 2) for kind, right in kinds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--adapter", help="folder of a LoRA adapter")
    parser.add_argument("--questions", type=Path, help="JSON lines (default: the test set)")
    parser.add_argument("--per-kind", type=int, default=500)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["full", "none", "sink"])
    parser.add_argument("--output", type=Path, default=Path("answers.json"))
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    tokenizer, sink_token_id = load_tokenizer(arguments.model)
    model = (
        merged(arguments.model, arguments.adapter)
        if arguments.adapter
        else load_base(arguments.model, torch.float32)
    )
    if arguments.questions:
        rows = read_questions(arguments.questions)
    else:
        rows = evaluation_set("1", "test", arguments.per_kind)
    result: dict[str, Any] = {
        "model": arguments.model, "adapter": arguments.adapter, "questions": len(rows),
        "nll": negative_log_likelihood(model, general_text.blocks(tokenizer, "held-out", 512)),
    }  # fmt: skip
    print("nll of held-out text", result["nll"], flush=True)
    for mode in arguments.modes:
        answers = answer(model, tokenizer, sink_token_id, rows, mode)
        result[mode] = {
            "right": scores(rows, answers),
            "contained": scores(rows, answers, contains_answer),
            "answers": dict(zip((r["id"] for r in rows), answers, strict=True)),
        }
        print(mode, result[mode]["right"], "contained:", result[mode]["contained"], flush=True)
        arguments.output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
