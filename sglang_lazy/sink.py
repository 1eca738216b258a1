"""Which token documents see before themselves in mode ``sink``."""

from __future__ import annotations

from typing import Any

NO_SINK_TOKEN = (
    "chunk context 'sink' needs a token that prompts begin with, and this model names no BOS token "
    "and no chat template; use 'none' or 'preamble'"
)


def find_sink_token(tokenizer: Any, hf_config: Any) -> int | None:
    """The token that the model's prompts begin with: what it learned to use as a sink.

    Args:
        tokenizer: Hugging Face tokenizer, or None where the server runs without one.
        hf_config: the model's configuration.

    Returns:
        The BOS token, else the first token of the chat template, else the model's
        configured BOS; None where none of them is known.
    """
    if tokenizer is not None:
        if tokenizer.bos_token_id is not None:
            return int(tokenizer.bos_token_id)
        if getattr(tokenizer, "chat_template", None):
            message = [{"role": "user", "content": "a"}]
            text = tokenizer.apply_chat_template(message, tokenize=False)
            return int(tokenizer(text, add_special_tokens=False)["input_ids"][0])
    bos_token_id = getattr(hf_config, "bos_token_id", None)
    return None if bos_token_id is None else int(bos_token_id)
