"""A prompt with documents as one dense sequence that any Hugging Face model can train on.

The engine stores a document's keys at local positions and rotates queries back. A dense forward
gives every token its logical position instead and hides by a mask what it may not see: rotary
scores depend on differences of positions only, so both compute the same. The tokens that a
document sees before itself (its *context*: a sink token, or the preamble) stand directly in front
of it in the engine, so each document gets a private copy of them there:

    prompt      t0 t1 t2  a0 a1  b0 b1  t3        (context: sink token s)
    sequence    t0 t1 t2  s a0 a1  s b0 b1  t3
    position     0  1  2  2 3  4   4 5  6   7     (Q behind documents sees no copy)

Who sees whom and where a document lies is asked of the engine's own ``PromptLayout``. Several
questions about the same documents share them as *branches*: each sees the documents and itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from sglang_lazy.cache.context import ContextTable
from sglang_lazy.cache.layout import PromptLayout
from sglang_lazy.cache.prompt import DocumentPrompt
from sglang_lazy.request.segments import ChunkContext, SegmentedIds
from sglang_lazy.request.wire import PromptShape

Mode = Literal["full", "none", "sink", "preamble"]
TEXT, PADDING = 0, -1
IGNORED = -100

_table = ContextTable()


class Branch(NamedTuple):
    """A question's tokens behind the documents, and the answer that is taught."""

    tail: list[int]
    target: list[int]


class Dense(NamedTuple):
    """One sequence; int64 ``[num_tokens]`` each.

    Attributes:
        input_ids, position: of each token.
        block: 0 for text, k for document k and its context copy; -1 for padding.
        seen_by_text: 1 where text behind the token sees it.
        branch: 0 for what all branches share, else the number of the branch.
        labels: the token that this token's row must predict, or -100.
    """

    input_ids: np.ndarray
    position: np.ndarray
    block: np.ndarray
    seen_by_text: np.ndarray
    branch: np.ndarray
    labels: np.ndarray


def engine_layout(
    ids: SegmentedIds, mode: ChunkContext, sink_token_id: int | None
) -> tuple[PromptLayout, list[int]]:
    """The engine's layout of a prompt of which nothing is cached, and the context's tokens."""
    tokens = array("q", ids)
    shape = PromptShape(len(ids), ids.document_spans, mode)
    prompt = DocumentPrompt(shape, tokens, None, sink_token_id, _table)
    lengths = tuple(np.diff([*prompt.starts, len(ids)]).tolist())
    layout = PromptLayout(
        lengths,
        prompt.is_document,
        (0,) * len(lengths),
        len(prompt.context),
        prompt.has_own_context,
    )
    return layout, list(prompt.context)


def flatten(
    ids: SegmentedIds,
    mode: Mode,
    sink_token_id: int | None,
    branches: Sequence[Branch] | None = None,
) -> Dense:
    """Lay out one prompt.

    Args:
        ids: the prompt, which ends in text. With ``branches``, that last text segment is
            left out and each branch stands in its place.
        mode: "full" for ordinary causal attention, else the engine's ``chunk_context``.
        sink_token_id: see ``sglang_lazy.sink``.
        branches: questions that share the documents; None keeps the prompt as it is.
    """
    context: list[int] = []
    if mode == "full" or not ids.document_spans:
        layout = PromptLayout((len(ids),), (False,), (0,), 0, False)
    else:
        layout, context = engine_layout(ids, mode, sink_token_id)
    rows: list[tuple[int, int, int, int, int, int]] = []
    # The one position that the engine counts as -1 becomes 0, and all others move with it.
    shift = int(layout.text_sees_sink)
    if layout.text_sees_sink:
        rows.append((context[0], 0, len(layout.lengths) + 1, 1, 0, IGNORED))
    end = len(ids)
    if branches is not None:
        end = ids.document_spans[-1][1] if ids.document_spans else len(ids)
    for piece in layout.pieces:
        start = layout.segment_starts[piece.segment]
        stop = min(start + piece.length, end)
        block = TEXT
        if layout.is_document[piece.segment]:
            block = piece.segment + 1
            before = start - len(context) + shift
            rows += [(t, before + i, block, 0, 0, IGNORED) for i, t in enumerate(context)]
        rows += [(ids[p], p + shift, block, 1, 0, IGNORED) for p in range(start, stop)]
    for number, branch in enumerate(branches or (), start=1):
        tokens = [*branch.tail, *branch.target[:-1]]
        labels = [IGNORED] * (len(branch.tail) - 1) + branch.target
        rows += [
            (t, end + i + shift, TEXT, 1, number, label)
            for i, (t, label) in enumerate(zip(tokens, labels, strict=True))
        ]
    return Dense(*np.array(rows, np.int64).T)


def collate(sequences: Sequence[Dense], pad_token_id: int, multiple: int = 64) -> Dense:
    """Pad to one length, a multiple of ``multiple``: tensors ``[batch, length]``."""
    longest = max(len(s.input_ids) for s in sequences)
    length = -(-longest // multiple) * multiple
    fills = Dense(pad_token_id, 0, PADDING, 0, 0, IGNORED)  # type: ignore[arg-type]
    return Dense(
        *(
            torch.from_numpy(
                np.stack(
                    [np.pad(s[f], (0, length - len(s[f])), constant_values=fill) for s in sequences]
                )
            )
            for f, fill in enumerate(fills)
        )  # type: ignore[arg-type]
    )


def visibility(batch: Dense) -> torch.Tensor:
    """Boolean ``[batch, 1, length, length]``: which tokens each token attends to."""

    def keys(x: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(x)[:, None, :]

    def queries(x: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(x)[:, :, None]

    causal = keys(batch.position) <= queries(batch.position)
    own_block = keys(batch.block) == queries(batch.block)
    text_sees = (queries(batch.block) == TEXT) & (keys(batch.seen_by_text) == 1)
    branch = (keys(batch.branch) == 0) | (keys(batch.branch) == queries(batch.branch))
    return (causal & branch & (own_block | text_sees))[:, None]
