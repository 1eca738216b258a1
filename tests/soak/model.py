"""What the soak test serves: a small random model with a real tokenizer, or a real model."""

from pathlib import Path

from transformers import AutoTokenizer

from ..families.shapes import Family

MAX_POSITION = 4096


def save_small_model(path: Path, tokenizer_dir: Path) -> None:
    """Two layers of random weights, whose attention is sharp, so that one wrong key shows.

    A pass takes milliseconds, and so does the oracle's: traffic is dense, and every answer
    is checked.
    """
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    shape = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": MAX_POSITION,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    Family("soak", "llama", "", shape).save(path)
    tokenizer.save_pretrained(path)
