"""A whole run of the recipe on a tiny random model: train, merge, load."""

import argparse
import json
import sys
from pathlib import Path

import evaluate_hf
import pytest
import recipe
import torch
from data import Encoder
from dense import collate
from generate import evaluation_set, examples
from merge import merge
from model import answer_logits, load_base, load_tokenizer, merged, negative_log_likelihood
from prompts import encode
from safetensors.torch import load_file
from train import parser, train
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM


@pytest.fixture(scope="module")
def tiny_dir(real_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with the real model's tokenizer."""
    path = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(real_model_dir)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
        initializer_range=0.3, max_position_embeddings=8192,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def adapter(tiny_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("adapter")
    options = (
        "--steps 32 --minutes 10 --rank 8 --lr 2e-2 --tokens 1800 --text-batch 1 --text-length 32 "
        "--own-texts 4 --workers 0 --look 2 --log-every 1 --kl-weight 0"
    )
    train(parser().parse_args([str(tiny_dir), "--output", str(output), *options.split()]))
    return output


def log(adapter: Path, event: str) -> list[dict]:
    lines = map(json.loads, (adapter / "log.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def test_loss_falls(adapter: Path) -> None:
    losses = [line["loss"] for line in log(adapter, "step")]
    assert len(losses) == 32
    assert sum(losses[-5:]) / 5 < sum(losses[:5]) / 5 - 0.5


def test_training_continues_with_an_adapter(tiny_dir: Path, adapter: Path, tmp_path: Path) -> None:
    """The first batch of a continued run, before anything is learned from it."""
    options = (
        "--steps 1 --minutes 10 --tokens 1800 --text-batch 1 --text-length 32 --own-texts 4 "
        "--workers 0 --look 0 --kl-weight 0"
    )
    arguments = [str(tiny_dir), "--output", str(tmp_path), "--resume", str(adapter)]
    train(parser().parse_args([*arguments, *options.split()]))
    losses = [line["loss"] for line in log(adapter, "step")]
    (continued,) = log(tmp_path, "step")
    assert continued["loss"] < losses[0] - 0.5
    assert continued["prompts"] >= 1 and not continued["graphs"]


def test_log_says_how_held_out_questions_fare(adapter: Path) -> None:
    looks = log(adapter, "look")
    assert {line["mode"] for line in looks} == {"full", "none", "sink"}
    assert all("fact" in line and "count" in line for line in looks)


def test_adapter_is_in_bfloat16_and_holds_nothing_else(adapter: Path) -> None:
    weights = load_file(adapter / "adapter_model.safetensors")
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}
    assert all("lora_" in name for name in weights)
    assert len(weights) == 2 * 7 * 2  # A and B, linear layers, layers


@torch.inference_mode()
def test_merged_model_loads_and_differs(tiny_dir: Path, adapter: Path, tmp_path: Path) -> None:
    output = merge(tiny_dir, adapter, tmp_path / "merged")
    loaded = AutoModelForCausalLM.from_pretrained(output).eval()
    tokenizer, sink = load_tokenizer(output)
    world, questions = next(examples(1, "test", 4))
    sequence = Encoder(tokenizer, sink).encode(world, questions, "sink")
    batch = collate([sequence], tokenizer.pad_token_id)
    logits, _ = answer_logits(loaded, batch, torch.float32)
    expected, _ = answer_logits(merged(tiny_dir, adapter), batch, torch.float32)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)
    stock, _ = answer_logits(load_base(tiny_dir, torch.float32), batch, torch.float32)
    assert (logits - stock).abs().max() > 0.1


@torch.inference_mode()
def test_batched_answers_are_those_of_generate(
    real_model_dir: Path, tiny_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full attention: prompts of different lengths in one batch, against Transformers."""
    monkeypatch.setattr(evaluate_hf, "MAX_NEW_TOKENS", 5)
    tokenizer, sink = load_tokenizer(tiny_dir)
    model = load_base(tiny_dir, torch.float32).eval()
    rows = evaluation_set(2, "test", 1)[:4]
    answers = evaluate_hf.answer(model, tokenizer, sink, rows, "full")
    builder = Encoder(tokenizer, sink).builder
    for row, got in zip(rows, answers, strict=True):
        ids = torch.tensor([encode(builder.prompt(row["documents"], row["question"]), tokenizer)])
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
        text = tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
        assert got == text.strip()


def test_nll_of_a_certain_text_is_low(tiny_dir: Path) -> None:
    model = load_base(tiny_dir, torch.float32).eval()
    block = [5] * 20
    with torch.no_grad():
        expected = model(torch.tensor([block]), labels=torch.tensor([block])).loss.item()
    assert negative_log_likelihood(model, [block, block]) == pytest.approx(expected, abs=1e-4)


def test_records_compare_with_full_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["x/recipe.py", "model"])
    rights = {"full": [True] * 8 + [False] * 2, "sink": [True] * 7 + [False] * 3}
    rights["none"] = rights["sink"][::-1]
    modes = {m: {"fact": {"right": r}, "count": {"right": r}} for m, r in rights.items()}
    result = {"modes": modes, "nll": {"stock": 3.0, "tuned": 3.03}, "model": "m"}
    recipe.write_records(result, tmp_path, "abc1234")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["quality_none.json", "quality_sink.json"]
    record = json.loads((tmp_path / "quality_sink.json").read_text())
    assert (record["value"], record["baseline"], record["n"]) == (70, 80, 20)
    assert record["difference"] == -10
    low, high = record["interval"]
    assert 40 < low < 70 < high < 95
    assert record["kinds"]["fact"]["n"] == 10
    assert record["commit"] == "abc1234" and record["command"] == "python recipe.py model"


def test_arguments_have_defaults() -> None:
    arguments = parser().parse_args(["model", "--output", "there"])
    assert isinstance(arguments, argparse.Namespace) and arguments.rank == 16
