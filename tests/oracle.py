"""Dense fp32 oracle: what a prompt of text and documents must compute.

One Hugging Face forward with an explicit mask and explicit positions, no cache.
RoPE scores depend on differences of positions only, so a document may be placed
at its logical positions, provided that the tokens it was encoded behind (its
*context*) stand directly in front of it. Each document therefore gets a private
copy of its context, which nobody else can see:

    prompt      t0 t1 t2  a0 a1 t3 b0 b1 t4         (preamble mode: context t0 t1 t2)
    sequence    t0 t1 t2 [t0 t1 t2] a0 a1 t3 [t0 t1 t2] b0 b1 t4
    position     0  1  2   0  1  2   3  4  5   3  4  5   6  7  8

Link tokens are text. What is left of the document stands behind a private copy of them
too, since it was encoded behind them as they are when the document stands alone:

    prompt      t0 t1 a0 a1 a2 t2                   (one link token, a0; no context)
    sequence    t0 t1 a0 [a0] a1 a2 t2
    position     0  1  2   2   3  4  5
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

Mode = Literal["none", "sink", "preamble"]
Segment = tuple[Literal["text", "document"], Sequence[int]]

BLOCK = 1024  # tokens of a pass of CachingOracle

TEXT = 0  # the chain of all text tokens; documents have chains of their own


@dataclass(frozen=True)
class Token:
    """One token of the dense sequence."""

    token_id: int
    position: int
    chain: int
    private: bool = False  # a copy of a context, seen by its own chain only


def lay_out(
    segments: Sequence[Segment], mode: Mode, sink_token_id: int | None, link_tokens: int = 0
) -> list[Token]:
    """The dense sequence of a prompt: its tokens, with a context before each document."""
    if mode == "sink" and sink_token_id is None:
        raise ValueError("mode 'sink' needs sink_token_id")
    kinds = [kind for kind, _ in segments]
    first_document = kinds.index("document") if "document" in kinds else len(kinds)
    preamble = [token for _, ids in segments[:first_document] for token in ids]
    contexts: dict[Mode, list[int]] = {"none": [], "sink": [sink_token_id], "preamble": preamble}
    context = contexts[mode]

    tokens: list[Token] = []
    chain = TEXT
    if mode == "sink" and kinds[0] == "document" and not link_tokens:
        chain += 1
        tokens.append(Token(sink_token_id, -1, chain))  # not private: text sees it at -1
    start = 0
    for kind, ids in segments:
        num_text = len(ids) if kind == "text" else min(link_tokens, len(ids))
        tokens += [Token(t, start + i, TEXT) for i, t in enumerate(ids[:num_text])]
        if num_text < len(ids):
            chain += 1
            before = start - len(context)
            alone = [*context, *ids[:num_text]]
            tokens += [Token(t, before + i, chain, True) for i, t in enumerate(alone)]
            rest = enumerate(ids[num_text:], start + num_text)
            tokens += [Token(t, position, chain) for position, t in rest]
        start += len(ids)
    return tokens


def visibility(tokens: Sequence[Token], queries: slice = slice(None)) -> torch.Tensor:
    """Boolean [num_queries, num_keys]: which tokens each of `queries` attends to."""
    positions = torch.tensor([t.position for t in tokens])
    chains = torch.tensor([t.chain for t in tokens])
    private = torch.tensor([t.private for t in tokens])
    # Within a chain and among the tokens that text can see, positions are distinct.
    causal = positions[None, :] <= positions[queries, None]
    own_chain = chains[None, :] == chains[queries, None]
    text_sees = (chains == TEXT)[queries, None] & ~private[None, :]
    return causal & (own_chain | text_sees)


class Oracle:
    """Log-probabilities of a causal language model under the lazy attention rules."""

    def __init__(self, model: PreTrainedModel | str | Path) -> None:
        if not isinstance(model, PreTrainedModel):
            model = AutoModelForCausalLM.from_pretrained(
                model, dtype=torch.float32, attn_implementation="eager"
            )
        self.model = model.eval()

    def logprobs(
        self,
        segments: Sequence[Segment],
        mode: Mode = "none",
        sink_token_id: int | None = None,
        start: int = 0,
        link_tokens: int = 0,
    ) -> torch.Tensor:
        """Log-softmax [num_tokens - start, vocab_size] of the prompt's tokens from `start` on.

        The row of token p predicts token p + 1. Generated tokens are scored by
        appending them to the prompt as text.
        """
        segments = [(kind, list(ids)) for kind, ids in segments if len(ids)]
        return self.logprobs_of(lay_out(segments, mode, sink_token_id, link_tokens), start)

    @torch.inference_mode()
    def logprobs_of(self, tokens: Sequence[Token], start: int = 0) -> torch.Tensor:
        """The same for a dense sequence."""
        prompt_rows = [i for i, t in enumerate(tokens) if not t.private and t.position >= 0]
        logits = self._forward(tokens, slice(None), torch.tensor(prompt_rows[start:]))
        return logits.float().log_softmax(dim=-1)

    def _forward(
        self,
        tokens: Sequence[Token],
        rows: slice,
        logits_to_keep: torch.Tensor,
        cache: DynamicCache | None = None,
    ) -> torch.Tensor:
        """Logits of some of `rows`, those before them being in the cache."""
        visible = visibility(tokens, rows)
        mask = torch.zeros(visible.shape)
        mask.masked_fill_(~visible, torch.finfo(torch.float32).min)
        output = self.model(
            input_ids=torch.tensor([[t.token_id for t in tokens[rows]]]),
            position_ids=torch.tensor([[t.position for t in tokens[rows]]]),
            attention_mask=mask[None, None],
            logits_to_keep=logits_to_keep,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        return output.logits[0]


class CachingOracle(Oracle):
    """The same, keeping what one sequence shares with the next; long ones block by block."""

    def __init__(self, model: PreTrainedModel | str | Path) -> None:
        super().__init__(model)
        self._cache = DynamicCache()
        self._cached: Sequence[Token] = ()

    @torch.inference_mode()
    def last_logprobs(self, tokens: Sequence[Token], num_rows: int) -> torch.Tensor:
        """Log-softmax [num_rows, vocab_size] of the last tokens of a dense sequence."""
        last_block = len(tokens) - num_rows
        num_shared = 0
        while (
            num_shared < min(last_block, len(self._cached))
            and self._cached[num_shared] == tokens[num_shared]
        ):
            num_shared += 1
        self._cache.crop(num_shared)
        starts = [*range(num_shared, last_block, BLOCK), last_block, len(tokens)]
        for start, end in zip(starts, starts[1:], strict=False):
            rows = torch.arange(end - start)
            logits = self._forward(tokens[:end], slice(start, end), rows, self._cache)
        self._cached = tokens
        return logits.float().log_softmax(dim=-1)
