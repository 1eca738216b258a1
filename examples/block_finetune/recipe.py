"""The whole recipe in one process: train, evaluate on held-out questions, write the records.

    python recipe.py MODEL --output adapter --records ../../benchmarks/results --minutes 6

Takes the options of ``train.py``. Writes the adapter with its log, ``results.json`` with every
answer, and ``quality_<mode>.json`` for each mode beside full attention. The questions are made in
other processes while the model trains. Under ``torchrun`` several GPUs share the work.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import general_text
import torch
from dense import Mode, flatten
from evaluate_hf import generate
from generate import evaluation_set
from model import load_base, load_tokenizer, merged, negative_log_likelihood
from prompts import PromptBuilder, encode
from questions import KINDS, contains_answer, is_right
from ranks import Ranks
from train import parser as train_parser
from train import train
from vocabulary import Split

from sglang_lazy.request.segments import SegmentedIds

MODES: tuple[Mode, ...] = ("full", "sink", "none")
SUFFIX: dict[Split, str] = {"test": "", "fresh": "_fresh"}
RESAMPLES = 2000


def bootstrap(values: Sequence[float]) -> list[float]:
    """95% interval of a mean, in points: percentiles of resampled means."""
    rng = random.Random(0)
    means = sorted(sum(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
    return [round(100 * x / len(values), 2) for x in (low, high)]


def points(right: Sequence[bool], full: Sequence[bool]) -> dict[str, Any]:
    """A mode's share of right answers beside full attention's, on the same questions."""
    pairs = list(zip(right, full, strict=True))
    return {
        "value": round(100 * sum(right) / len(right), 2),
        "baseline": round(100 * sum(full) / len(full), 2),
        "n": len(right),
        "interval": bootstrap(right),
        "difference": round(100 * sum(a - b for a, b in pairs) / len(right), 2),
        "difference_interval": bootstrap([a - b for a, b in pairs]),
    }


def questions(
    path: str, split: Split, kind: str, per_kind: int
) -> tuple[list[dict[str, Any]], list[Any]]:
    """One kind's held-out questions, and their prompts as (ids, document spans)."""
    tokenizer, _ = load_tokenizer(path)
    builder = PromptBuilder(tokenizer)
    rows = evaluation_set("1", split, per_kind, (kind,))
    prompts = [encode(builder.prompt(r["documents"], r["question"]), tokenizer) for r in rows]
    return rows, [(list(p), p.document_spans) for p in prompts]


def evaluate(
    path: str, adapter: Path, made: dict[str, tuple[list[dict[str, Any]], list[Any]]], batch: int
) -> dict[str, Any]:
    """Answers in every mode and the NLL of ordinary text, in float32."""
    torch.cuda.empty_cache()  # of what training held
    tokenizer, sink_token_id = load_tokenizer(path)
    blocks = general_text.blocks(tokenizer, "held-out", 512)
    result: dict[str, Any] = {"modes": {m: {} for m in MODES}}
    stock = negative_log_likelihood(load_base(path, torch.float32).eval(), blocks)
    model = merged(path, adapter).eval()
    result["nll"] = {"stock": stock, "tuned": negative_log_likelihood(model, blocks)}
    print("nll of held-out ordinary text", result["nll"], flush=True)
    for mode in MODES:
        for kind, (rows, prompts) in made.items():
            answers: list[str] = []
            for start in range(0, len(rows), batch):
                part = [SegmentedIds(*p) for p in prompts[start : start + batch]]
                sequences = [flatten(ids, mode, sink_token_id) for ids in part]
                answers += generate(model, sequences, tokenizer)
            right = [is_right(a, r["answers"]) for a, r in zip(answers, rows, strict=True)]
            contained = [
                contains_answer(a, r["answers"]) for a, r in zip(answers, rows, strict=True)
            ]
            result["modes"][mode][kind] = {
                "answers": answers, "right": right, "contained": contained,
            }  # fmt: skip
            shares = [round(100 * sum(x) / len(x), 1) for x in (right, contained)]
            print(f"{mode:>5} {kind:<13} right {shares[0]}, contained {shares[1]}", flush=True)
    return result


def _named(argument: str) -> str:
    """An argument as a record shows it: of an absolute path only the name."""
    return Path(argument).name if argument.startswith("/") else argument


def write_records(result: dict[str, Any], folder: Path, commit: str) -> None:
    """``quality_<mode>.json`` for each mode but full attention, ``..._fresh`` of that split."""
    folder.mkdir(parents=True, exist_ok=True)
    for mode, (split, suffix) in product(MODES[1:], SUFFIX.items()):
        kinds, full = (
            {k: result["modes"][m][k + suffix] for k in KINDS if k + suffix in result["modes"][m]}
            for m in (mode, "full")
        )
        if not kinds:
            continue
        everything = [[x for k in m for x in m[k]["right"]] for m in (kinds, full)]
        record = {
            "figure": f"quality_{mode}{suffix}",
            "split": split,
            **points(*everything),
            "unit": "points",
            "meaning": "answers that are right to the word; baseline: full attention, same weights",
            "kinds": {k: points(kinds[k]["right"], full[k]["right"]) for k in kinds},
            "nll_ordinary_text": result["nll"],
            "model": result["model"],
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
            "gpus": Ranks().size,
            "commit": commit,
            "command": shlex.join(["python", Path(sys.argv[0]).name, *map(_named, sys.argv[1:])]),
        }
        (folder / f"quality_{mode}{suffix}.json").write_text(json.dumps(record, indent=2) + "\n")


def current_commit() -> str:
    """Of the checkout that this file lies in, or "unknown"."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    here = Path(__file__).parent
    run = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], parents=[train_parser(add_help=False)]
    )
    parser.add_argument("--records", type=Path, help="folder for quality_<mode>.json")
    parser.add_argument("--per-kind", type=int, default=500, help="held-out questions of a kind")
    parser.add_argument("--fresh-per-kind", type=int, default=200, help="the same, split fresh")
    parser.add_argument("--batch", type=int, default=250, help="prompts answered at once")
    parser.add_argument("--commit", default=current_commit(), help="commit to record")
    arguments = parser.parse_args()
    started = time.monotonic()
    ranks = Ranks()
    sizes = {"test": arguments.per_kind, "fresh": arguments.fresh_per_kind}
    wanted = [(split, kind) for split, kind in product(SUFFIX, KINDS) if sizes[split]]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        jobs = {
            kind + SUFFIX[split]: pool.apply_async(
                questions, (arguments.model, split, kind, sizes[split])
            )
            for split, kind in wanted[ranks.rank :: ranks.size]
        }
        train(arguments)
        print(f"trained after {time.monotonic() - started:.0f} s", flush=True)
        made = {kind: job.get() for kind, job in jobs.items()}
    result = evaluate(arguments.model, arguments.output, made, arguments.batch)
    if ranks.size > 1:
        parts = [arguments.output / f"part-{rank}.json" for rank in range(ranks.size)]
        parts[ranks.rank].write_text(json.dumps(result["modes"]))
        ranks.wait()
        if not ranks.is_first:
            return
        found = [json.loads(part.read_text()) for part in parts]
        result["modes"] = {
            mode: {k: v for part in found for k, v in part[mode].items()} for mode in MODES
        }
        for part in parts:
            part.unlink()
    result["model"] = Path(arguments.model).name
    (arguments.output / "results.json").write_text(json.dumps(result))
    if arguments.records:
        write_records(result, arguments.records, arguments.commit)
    print(f"done after {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
