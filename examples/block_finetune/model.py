"""The model: loading, adapters, and forwards of dense sequences."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from dense import IGNORED, Dense, visibility
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from sglang_lazy.sink import find_sink_token


def load_base(path: str | Path, dtype: torch.dtype) -> Any:
    """The model with PyTorch's fused attention, on the GPU where there is one."""
    # cuDNN's attention makes a plan for each new shape, and every batch has another.
    torch.backends.cuda.enable_cudnn_sdp(False)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def load_tokenizer(path: str | Path) -> tuple[Any, int | None]:
    """The tokenizer, and the token that the engine uses as a sink.

    Raises ``ValueError`` where there is no chat template, which all prompts are made with.
    """
    tokenizer = AutoTokenizer.from_pretrained(path)
    if not tokenizer.chat_template:
        raise ValueError(f"{path} has no chat template: take an instruction-tuned model")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, find_sink_token(tokenizer, None)


def continue_lora(model: Any, adapter: str | Path) -> PeftModel:
    """An adapter to train further; weights in float32."""
    continued = PeftModel.from_pretrained(model, str(adapter), is_trainable=True)
    for parameter in continued.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return continued


def add_lora(model: Any, rank: int) -> PeftModel:
    """A LoRA of ``rank`` on every linear layer but the output head; weights in float32."""
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(model, config)


def merged(base_path: str | Path, adapter: str | Path, dtype: torch.dtype = torch.float32) -> Any:
    """The base model with an adapter added into its weights."""
    return PeftModel.from_pretrained(load_base(base_path, dtype), str(adapter)).merge_and_unload()


def save_adapter(model: PeftModel, path: str | Path) -> None:
    """Save the adapter in bfloat16. One that is there is replaced when the new one is complete."""
    state = {
        name: p.detach().to(torch.bfloat16).cpu()
        for name, p in model.state_dict().items()
        if "lora_" in name
    }
    for config in model.peft_config.values():
        config.base_model_name_or_path = Path(str(config.base_model_name_or_path)).name
    Path(path).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path, prefix=".saving-") as work:
        model.save_pretrained(work, state_dict=state, save_embedding_layers=False)
        for file in Path(work).iterdir():
            file.replace(Path(path) / file.name)


def causal_lm(model: Any) -> Any:
    """The Hugging Face model, with or without an adapter around it."""
    return model.base_model.model if isinstance(model, PeftModel) else model


def to_device(batch: Dense, device: torch.device | str) -> Dense:
    return Dense(*(torch.as_tensor(x).to(device, non_blocking=True) for x in batch))  # type: ignore[arg-type]


def additive_mask(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What attention adds to its scores."""
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)


def hidden_states(model: Any, batch: Dense, dtype: torch.dtype, **options: Any) -> Any:
    """The decoder's output for a batch under its mask."""
    return causal_lm(model).model(
        input_ids=batch.input_ids,
        position_ids=batch.position,
        attention_mask=additive_mask(visibility(batch), dtype),
        **options,
    )


def answer_logits(
    model: Any, batch: Dense, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits ``[n, vocab]`` and labels ``[n]`` of the rows that predict answers."""
    hidden = hidden_states(model, batch, dtype, use_cache=False).last_hidden_state
    labels = torch.as_tensor(batch.labels)
    taught = labels != IGNORED
    return causal_lm(model).lm_head(hidden[taught]), labels[taught]


def taught_rows(batch: Dense, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices of the rows that predict answers and their labels, padded to ``count``.

    The padding has the label -100. Raises ``ValueError`` where ``count`` is too small.
    """
    labels = torch.as_tensor(batch.labels).flatten()
    rows = torch.nonzero(labels != IGNORED).flatten()
    if len(rows) > count:
        raise ValueError(f"{len(rows)} rows predict answers, there is room for {count}")
    rows = F.pad(rows, (0, count - len(rows)))
    found = labels[rows]
    found[int((labels != IGNORED).sum()) :] = IGNORED
    return rows, found


def answer_loss(
    model: Any, batch: Dense, rows: torch.Tensor, labels: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """Mean cross entropy of the answers' tokens; ``rows`` and ``labels`` from ``taught_rows``."""
    hidden = hidden_states(model, batch, dtype, use_cache=False).last_hidden_state
    logits = causal_lm(model).lm_head(hidden.flatten(0, 1).index_select(0, rows))
    return F.cross_entropy(logits.float(), labels, ignore_index=IGNORED)


def drift(model: PeftModel, ids: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """KL divergence of the adapted model from its base on ordinary text, mean over tokens."""
    # With a mask of our own, since Transformers waits for the GPU to choose one.
    length = ids.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
    mask = additive_mask(causal.expand(len(ids), 1, length, length), dtype)
    with torch.no_grad(), model.disable_adapter():
        teacher = causal_lm(model)(input_ids=ids, attention_mask=mask, use_cache=False).logits
        teacher = teacher.float().log_softmax(-1)
    student = causal_lm(model)(input_ids=ids, attention_mask=mask, use_cache=False).logits
    student = student.float().log_softmax(-1)
    return F.kl_div(student, teacher, log_target=True, reduction="none").sum(-1).mean()


@torch.inference_mode()
def negative_log_likelihood(model: Any, blocks: list[list[int]]) -> float:
    """Mean NLL per token, in nats, of blocks of ordinary text."""
    total, count = 0.0, 0
    device = next(model.parameters()).device
    by_length: dict[int, list[list[int]]] = {}
    for block in blocks:
        by_length.setdefault(len(block), []).append(block)
    for group in by_length.values():
        for start in range(0, len(group), 16):
            ids = torch.tensor(group[start : start + 16], device=device)
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
            total, count = total + float(loss), count + ids[:, 1:].numel()
    return total / count
