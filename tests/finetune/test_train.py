"""A whole run of the recipe on a tiny random model: train, merge, load."""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate_hf
import plot_log
import pytest
import recipe
import torch
from data import Encoder
from dense import collate
from generate import evaluation_set, examples
from merge import main as merge_main
from merge import merge
from model import answer_logits, load_base, load_tokenizer, merged, negative_log_likelihood
from prompts import chat_markup, encode
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
    lines = map(json.loads, (adapter / "log-1.jsonl").read_text().splitlines())
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


QUICK = (
    "--minutes 10 --rank 2 --tokens 1800 --text-batch 1 --text-length 16 --own-texts 2 "
    "--workers 0 --look 0 --kl-weight 0"
)


def quick(model: Path, output: Path, *more: str) -> argparse.Namespace:
    return parser().parse_args([str(model), "--output", str(output), *QUICK.split(), *more])


def test_a_run_that_breaks_off_leaves_an_adapter(
    tiny_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is continued in the same folder, and its log stays; no other run replaces it."""
    clip, calls = torch.nn.utils.clip_grad_norm_, []

    def breaks_off(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return clip(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(torch.nn.utils, "clip_grad_norm_", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            train(quick(tiny_dir, tmp_path, "--steps", "4", "--looks", "4"))
    weights = load_file(tmp_path / "adapter_model.safetensors")
    assert any(w.any() for name, w in weights.items() if "lora_B" in name)
    with pytest.raises(FileExistsError, match="holds an adapter: continue it"):
        train(quick(tiny_dir, tmp_path, "--steps", "1"))
    before = (tmp_path / "log-1.jsonl").read_text()
    train(quick(tiny_dir, tmp_path, "--steps", "1", "--resume", str(tmp_path)))
    assert (tmp_path / "log-1.jsonl").read_text() == before
    logs = sorted(tmp_path.glob("log-*.jsonl"))
    assert [p.name for p in logs] == ["log-1.jsonl", "log-2.jsonl"]
    assert [x["step"] for x in plot_log.joined(logs)] == [1, 2, 2]
    assert not list(tmp_path.glob(".saving*"))


def test_plotting_a_log_that_ended_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"event": "text"}\n')
    (tmp_path / "b").write_text('{"event": "step", "step": 1, "loss": 1.0, "kl": 0.1}\n')
    lines = plot_log.joined([tmp_path / "a", tmp_path / "b"])
    assert [x["step"] for x in lines] == [1]
    plot_log.draw(lines, tmp_path / "log.png")
    assert (tmp_path / "log.png").stat().st_size > 1000


NO_SYSTEM = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}<model>"
)


@pytest.fixture
def odd(tiny_dir: Path, tmp_path: Path) -> Callable[..., Path]:
    """The tiny model with another tokenizer configuration."""

    def made(**fields: Any) -> Path:
        path = tmp_path / "model"
        shutil.copytree(tiny_dir, path)
        tokenizer = AutoTokenizer.from_pretrained(path)
        for name, value in fields.items():
            setattr(tokenizer, name, value)
        (path / "chat_template.jinja").unlink(missing_ok=True)
        tokenizer.save_pretrained(path)
        return path

    return made


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"bos_token": None, "unk_token": None}, id="as-qwen"),
        pytest.param({"pad_token": None, "chat_template": NO_SYSTEM}, id="as-gemma"),
        pytest.param({"chat_template": "{{ messages[-1].content }}"}, id="no-markup"),
    ],
)
def test_other_tokenizers_and_templates_train(
    odd: Callable[..., Path], tmp_path: Path, fields: dict[str, Any]
) -> None:
    train(quick(odd(**fields), tmp_path / "adapter", "--steps", "1"))
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()


def test_a_system_message_that_is_refused_begins_the_users(odd: Callable[..., Path]) -> None:
    tokenizer, _ = load_tokenizer(odd(chat_template=NO_SYSTEM))
    plain, after = chat_markup(tokenizer)
    assert (plain, after) == (f"{tokenizer.bos_token}<user>", "<end><model>")
    assert chat_markup(tokenizer, "Be kind.") == (f"{plain}Be kind.\n\n", after)


def test_no_chat_template_is_said_before_anything_is_written(
    odd: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="has no chat template"):
        train(quick(odd(chat_template=None), tmp_path / "adapter"))
    assert not (tmp_path / "adapter").exists()


def test_a_missing_adapter_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no adapter"):
        train(quick(tmp_path, tmp_path / "new", "--resume", str(tmp_path / "nothing")))


def test_merging_does_not_pass_over_a_folder_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["merge.py", "model", "adapter", str(tmp_path)])
    with pytest.raises(SystemExit):
        merge_main()
    assert "is there already" in capsys.readouterr().err


def test_questions_of_ones_own_need_no_ids(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    row = {"question": "Who\u2028?", "documents": ["A"], "answers": ["B"]}
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n\n", "utf-8")
    assert evaluate_hf.read_questions(path) == [{"id": "1", "kind": "all", **row}]
    path.write_text('{"question": "Who?"}\n')
    with pytest.raises(ValueError, match="line 1 lacks answers, documents"):
        evaluate_hf.read_questions(path)


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
