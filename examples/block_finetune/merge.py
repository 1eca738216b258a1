"""Add a LoRA adapter into the weights of its model, and write a folder that SGLang serves.

python merge.py MODEL ADAPTER OUTPUT
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def merge(model: str | Path, adapter: str | Path, output: Path) -> Path:
    """Write the merged model to ``output``, in the dtype of ``model``, unless it is there."""
    if (output / "config.json").is_file():
        return output
    base = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    # Sums of bfloat16 weights and small changes lose the changes: add in float32.
    dtype = base.dtype
    merged = PeftModel.from_pretrained(base.to(torch.float32), str(adapter)).merge_and_unload()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as work:
        result = Path(work) / "model"
        merged.to(dtype).save_pretrained(result)
        AutoTokenizer.from_pretrained(model).save_pretrained(result)
        os.rename(result, output)
    return output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("adapter")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    if arguments.output.exists():
        parser.error(f"{arguments.output} is there already")
    print(merge(arguments.model, arguments.adapter, arguments.output))


if __name__ == "__main__":
    main()
