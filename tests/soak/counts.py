"""What an answer says of tokens and documents: how many, and how many came from the cache."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..oracle import Segment
from .verdict import Tally, require


def check_counts(segments: Sequence[Segment], answer: Mapping[str, Any], tally: Tally) -> None:
    """Require what holds however much was found in the cache, and count it."""
    meta, usage = answer.get("meta") or {}, answer.get("usage")
    prompt = [token for _, ids in segments for token in ids]
    num_documents = sum(kind == "document" for kind, _ in segments)
    if answer.get("prompt_ids") is not None:
        require(answer["prompt_ids"] == prompt, "prompt", f"{answer['prompt_ids']} is another")
    retractions = meta.get("num_retractions", 0)
    tally.retractions += retractions
    for counts in filter(None, (meta, usage)):
        # A retracted request may find part of its own answer.
        own = counts["completion_tokens"] if retractions or not meta else -1
        cached = counts.get("cached_tokens")
        if cached is None:
            cached = (counts.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        if answer["finish_reason"] != "abort":
            told = counts["prompt_tokens"]
            require(told == len(prompt), "usage", f"prompt_tokens {told}, not {len(prompt)}")
        require(0 <= cached <= len(prompt) + own, "usage", f"cached_tokens {cached}: {counts}")
    tally.prompt_tokens += len(prompt)
    if meta:
        tally.cached_tokens += meta["cached_tokens"]
    info = meta.get("chunk_cache")
    if info is not None:
        lengths = [len(ids) for kind, ids in segments if kind == "document"]
        is_sound = (
            info["documents"] == num_documents
            and 0 <= info["hits"] <= info["documents"]
            and 0 <= info["cached_tokens"] <= sum(lengths)
        )
        require(is_sound, "chunk_cache", f"{info} of documents of {lengths} tokens")
        tally.documents += info["documents"]
        tally.hits += info["hits"]
    elif meta and num_documents:
        require(answer["finish_reason"] == "abort", "chunk_cache", "is missing")
