"""Fine-tune a model so that documents may be encoded alone: LoRA, full and block attention mixed.

    python train.py MODEL --output adapter --minutes 6

Under ``torchrun --nproc-per-node N train.py ...`` several GPUs train together, each on batches of
its own. Training stops by the clock, and the learning rate falls to zero by then, so that the same
command uses whatever GPU there is. Two losses: cross entropy of the answers, and the KL divergence
from the base model on ordinary text (package descriptions, and text that the base model writes),
which keeps ordinary prompts as they were.

The adapter is saved ``--looks`` times on the way too, for the case that the run breaks off. Each
run into a folder writes the next of ``log-1.jsonl``, ``log-2.jsonl``, ...
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import time
from pathlib import Path
from typing import Any

import general_text
import torch
from data import Encoder, TrainingBatches
from dense import IGNORED, Dense, Mode, collate
from generate import examples
from graphs import Gradients
from model import (
    add_lora,
    answer_logits,
    answer_loss,
    continue_lora,
    drift,
    load_base,
    load_tokenizer,
    save_adapter,
    taught_rows,
    to_device,
)
from peft.helpers import disable_input_dtype_casting
from prompts import chat_markup
from ranks import Ranks
from torch.utils.data import DataLoader

MODES: dict[Mode, float] = {"full": 0.25, "none": 0.35, "sink": 0.4}


def own_texts(model: Any, tokenizer: Any, count: int, length: int) -> list[list[int]]:
    """Texts of ``length`` tokens that the base model writes: 70% chats, 30% free prose."""
    device = next(model.parameters()).device
    before, _ = chat_markup(tokenizer)
    bos = tokenizer.bos_token_id
    prose = [tokenizer.eos_token_id if bos is None else bos]
    chat = tokenizer(before, add_special_tokens=False)["input_ids"] or prose
    num_chats = max(1, int(count * 0.7))
    # All in one batch, padded on the left; what is behind ``length`` is cut off.
    padding = len(chat) - len(prose)
    prompts = [chat] * num_chats
    prompts += [[tokenizer.pad_token_id] * padding + prose] * max(1, count - num_chats)
    ids = torch.tensor(prompts, device=device)
    mask = torch.ones_like(ids)
    mask[num_chats:, :padding] = 0
    output = model.generate(
        ids, attention_mask=mask, do_sample=True, top_k=0, top_p=0.97, max_new_tokens=length - 1,
        min_new_tokens=length - 1, eos_token_id=None, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    texts = output.tolist()
    return [t[:length] for t in texts[:num_chats]] + [t[padding:] for t in texts[num_chats:]]


class Regulariser:
    """Draws blocks of ordinary text of one length."""

    def __init__(self, blocks: list[list[int]], batch_size: int, seed: int) -> None:
        length = max(map(len, blocks))
        self._blocks = torch.tensor([b for b in blocks if len(b) == length])
        self._batch_size = batch_size
        self._generator = torch.Generator().manual_seed(seed)

    def draw(self) -> torch.Tensor:
        index = torch.randint(len(self._blocks), (self._batch_size,), generator=self._generator)
        return self._blocks[index]


def held_out_batches(
    encoder: Encoder, mode: Mode, worlds: int, batch_size: int
) -> list[tuple[Dense, list[str]]]:
    """Worlds of the test split with the kind of each question; for a look while training."""
    source = examples("look", "test", 10)
    drawn = [next(source) for _ in range(worlds)]
    batches = []
    for start in range(0, worlds, batch_size):
        part = drawn[start : start + batch_size]
        for _, questions in part:
            for question in questions:
                question.opening = ""
        sequences = [encoder.encode(world, questions, mode) for world, questions in part]
        kinds = [q.kind for _, questions in part for q in questions]
        batches.append((collate(sequences, encoder.tokenizer.pad_token_id), kinds))
    return batches


@torch.inference_mode()
def look(
    model: Any, batches: list[tuple[Dense, list[str]]], device: Any, dtype: torch.dtype
) -> dict[str, float]:
    """Share of answers, by kind, of which every token is the most likely one."""
    right: dict[str, list[bool]] = {}
    for batch, kinds in batches:
        moved = to_device(batch, device)
        logits, labels = answer_logits(model, moved, dtype)
        hit = (logits.argmax(-1) == labels).cpu()
        taught = torch.as_tensor(batch.labels) != -100
        row = torch.arange(len(taught))[:, None].expand_as(taught)[taught]
        key = row * 1000 + torch.as_tensor(batch.branch)[taught]
        for question, kind in zip(torch.unique_consecutive(key), kinds, strict=True):
            right.setdefault(kind, []).append(bool(hit[key == question].all()))
    return {k: round(100 * sum(v) / len(v), 1) for k, v in sorted(right.items())}


def check_output(output: Path, resume: Path | None) -> None:
    """Raises ``FileExistsError`` where training would replace an adapter of another run.

    ``FileNotFoundError`` where there is nothing to continue.
    """
    if resume and not (resume / "adapter_config.json").is_file():
        raise FileNotFoundError(f"--resume: {resume} holds no adapter")
    there = (output / "adapter_config.json").is_file()
    if there and not (resume and output.samefile(resume)):
        raise FileExistsError(
            f"{output} holds an adapter: continue it (--resume {output}), or name another --output"
        )


def new_log(folder: Path) -> Path:
    """The first of ``log-1.jsonl``, ``log-2.jsonl``, ... that is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    names = (folder / f"log-{n}.jsonl" for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def train(arguments: argparse.Namespace) -> None:
    """Train and save an adapter, together with other processes where ``torchrun`` started some.

    Raises the errors of ``check_output``, and ``ValueError`` for a model without a chat template.
    """
    ranks = Ranks()
    check_output(arguments.output, arguments.resume)
    tokenizer, sink_token_id = load_tokenizer(arguments.model)
    encoder = Encoder(tokenizer, sink_token_id)
    torch.manual_seed(arguments.seed + ranks.rank)
    random.seed(arguments.seed + ranks.rank)
    torch.set_float32_matmul_precision("high")
    log = (new_log(arguments.output) if ranks.is_first else Path(os.devnull)).open("w")

    def report(**fields: Any) -> None:
        if not ranks.is_first:
            return
        line = json.dumps(fields)
        print(line, flush=True)
        print(line, file=log, flush=True)

    # Workers start before the GPU is touched, since they are forked.
    loader = iter(
        DataLoader(
            TrainingBatches(encoder, arguments.seed, arguments.tokens, MODES, rank=ranks.rank),
            batch_size=None,
            num_workers=arguments.workers,
            prefetch_factor=4 if arguments.workers else None,
        )
    )
    first = next(loader)
    ranks.connect()
    dtype = torch.bfloat16
    base = load_base(arguments.model, dtype)
    device = next(base.parameters()).device
    started = time.monotonic()
    blocks = general_text.blocks(tokenizer, "train", arguments.text_length)
    num_prose = len(blocks)
    blocks += own_texts(base, tokenizer, arguments.own_texts, arguments.text_length)
    report(event="text", prose=num_prose, own=len(blocks) - num_prose, s=time.monotonic() - started)
    regulariser = Regulariser(blocks, arguments.text_batch, arguments.seed + ranks.rank)

    if arguments.resume:
        model = continue_lora(base, arguments.resume)
    else:
        model = add_lora(base, arguments.rank)
    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    ranks.copy_from_first(*(p.data for p in parameters))
    optimizer = torch.optim.AdamW(
        parameters, lr=arguments.lr, betas=(0.9, 0.99), weight_decay=0.0,
        fused=device.type == "cuda",
    )  # fmt: skip

    def losses(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *batch, rows, labels, text = tensors
        with torch.autocast(device.type, dtype, cache_enabled=False):
            answers = answer_loss(model, Dense(*batch), rows, labels, dtype)  # type: ignore[arg-type]
            kl = drift(model, text, dtype)
            return answers + arguments.kl_weight * kl, answers, kl

    gradients = Gradients(losses, parameters, device, arguments.graphs)
    room: dict[tuple[int, ...], int] = {}
    looked_at = MODES if arguments.look else ()
    looks = {m: held_out_batches(encoder, m, arguments.look, 32) for m in looked_at}
    report(event="start", parameters=sum(p.numel() for p in parameters), device=str(device))

    started = time.monotonic()
    limit, step, paused, next_look = 60 * arguments.minutes, 0, 0.0, 0.0
    while True:
        elapsed = time.monotonic() - started - paused
        share = elapsed / limit
        if arguments.steps:
            share = max(share, step / arguments.steps)
        share = ranks.of_first(share)
        if share >= 1:
            break
        batch = first if step == 0 else next(loader)
        lr = arguments.lr * min(1, (step + 1) / 40) * 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = lr
        taught = int((torch.as_tensor(batch.labels) != IGNORED).sum())
        if taught > room.get(batch.input_ids.shape, 0):
            room[batch.input_ids.shape] = -(-taught * 5 // 4 // 256) * 256
        rows = taught_rows(batch, room[batch.input_ids.shape])
        with disable_input_dtype_casting(model):
            _, answers, kl = gradients(*map(torch.as_tensor, batch), *rows, regulariser.draw())
        ranks.average(gradients.flat)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        if step % arguments.log_every == 0 or step == 1:
            report(
                event="step", step=step, s=round(elapsed, 1), lr=round(lr, 6),
                loss=round(answers.item(), 4), kl=round(kl.item(), 5),
                prompts=len(batch.input_ids), length=batch.input_ids.shape[1],
                graphs=gradients.enabled,
            )  # fmt: skip
        if share >= next_look and ranks.is_first:
            pause = time.monotonic()
            if next_look:  # else nothing is learned yet
                save_adapter(model, arguments.output)
            next_look += 1 / arguments.looks if arguments.looks else math.inf
            with torch.autocast(device.type, dtype), disable_input_dtype_casting(model):
                for mode, batches in looks.items():
                    report(
                        event="look", step=step, mode=mode, **look(model, batches, device, dtype)
                    )
            paused += time.monotonic() - pause
    if ranks.is_first:
        save_adapter(model, arguments.output)
    ranks.wait()
    report(event="end", step=step, s=round(time.monotonic() - started, 1))


def parser(add_help: bool = True) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0], add_help=add_help)
    add = made.add_argument
    add("model", help="folder or name of a Llama-like model with a chat template")
    add("--output", type=Path, required=True, help="folder for the adapter and the log")
    add("--minutes", type=float, default=6.0, help="time of the training loop")
    add("--steps", type=int, default=0, help="stop after so many steps, if that is earlier")
    add("--resume", type=Path, help="adapter to continue with (default: a new one)")
    add("--rank", type=int, default=16, help="of a new adapter")
    add("--lr", type=float, default=1e-3)
    add("--tokens", type=int, default=24576, help="tokens of a batch, padding included")
    add("--graphs", action=argparse.BooleanOptionalAction, default=True, help="use CUDA graphs")
    add("--kl-weight", type=float, default=0.1, help="weight of the KL divergence on ordinary text")
    add("--text-batch", type=int, default=8, help="blocks of ordinary text a step")
    add("--text-length", type=int, default=256, help="tokens of such a block")
    add("--own-texts", type=int, default=1024, help="texts that the base model writes first")
    add("--workers", type=int, default=12, help="processes that make batches")
    add("--look", type=int, default=64, help="test worlds to look at while training; 0: none")
    add("--looks", type=int, default=5, help="how often to look, and to save the adapter")
    add("--log-every", type=int, default=20)
    add("--seed", type=int, default=0)
    return made


if __name__ == "__main__":
    train(parser().parse_args())
