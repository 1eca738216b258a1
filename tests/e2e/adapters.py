"""Small random LoRA adapters in PEFT's format, and the oracle of each."""

from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from ..oracle import Oracle

# What a document's keys and values depend on, with all that lies between its layers.
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
STRENGTH = 0.1


@dataclass(frozen=True)
class Adapter:
    """An adapter's files, and the dense model with its weights merged."""

    name: str
    path: Path
    oracle: Oracle


def make_adapter(model_dir: Path, path: Path, rank: int, seed: int = 0) -> Adapter:
    """An adapter that changes every layer, so that most logprobs are off by several units."""
    model = AutoModelForCausalLM.from_pretrained(
        model_dir, dtype=torch.float32, attn_implementation="eager"
    )
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=TARGETS, task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_A" in name:
                weight.normal_(0, weight.shape[1] ** -0.5, generator=generator)
            elif "lora_B" in name:
                weight.normal_(0, STRENGTH, generator=generator)
    adapted.save_pretrained(path)
    return Adapter(path.name, path, Oracle(adapted.merge_and_unload()))
