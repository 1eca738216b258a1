"""The dense sequence against the engine's layout, and its logits against the oracle's."""

import numpy as np
import pytest
import torch
from dense import Branch, Dense, collate, engine_layout, flatten, visibility
from model import answer_logits, hidden_states
from transformers import LlamaConfig, LlamaForCausalLM

from sglang_lazy.request.segments import SegmentedIds

from ..oracle import Oracle, Segment

SINK = 1
S, A, B, Q = [5, 9, 2, 77, 31], [40, 41, 42, 43, 44, 45, 46], [60, 3, 62], [90, 17, 91, 23]
PROMPTS: dict[str, list[Segment]] = {
    "two documents": [("text", S), ("document", A), ("document", B), ("text", Q)],
    "sink first": [("text", [SINK, *S]), ("document", A), ("document", B), ("text", Q)],
    "text between": [("text", S), ("document", A), ("text", B), ("document", B), ("text", Q)],
    "document first": [("document", A), ("document", B), ("text", Q)],
    "no document": [("text", S + Q)],
}
MODES = ("none", "sink", "preamble")


def segmented(segments: list[Segment]) -> SegmentedIds:
    ids: list[int] = []
    spans = []
    for kind, tokens in segments:
        if kind == "document":
            spans.append((len(ids), len(ids) + len(tokens)))
        ids += tokens
    return SegmentedIds(ids, spans)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=100, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.25)
    return model


def batched(*sequences: Dense) -> Dense:
    return collate(sequences, pad_token_id=0, multiple=8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [n for n in PROMPTS if n != "no document"])
def test_mask_and_positions_are_the_engines(name: str, mode: str) -> None:
    """Every pair of query and key: seen or not, and the difference of their positions."""
    ids = segmented(PROMPTS[name])
    layout, context = engine_layout(ids, mode, SINK)
    dense = flatten(ids, mode, SINK)

    # What the engine computes, by (query, key) in logical order; key -1 is a detached sink.
    expected: dict[tuple[int, int], int] = {}
    for piece in layout.pieces:
        offset = layout.position_offset(piece.segment)
        for q in range(piece.start, piece.end):
            local = q - offset if layout.is_document[piece.segment] else q
            for span in layout.spans_before(piece):
                for k in range(span.start, span.start + span.length):
                    stored = int(layout.positions(k, k + 1)[0])
                    expected[q, k] = local - span.position_offset - stored
            for k in range(piece.start, q + 1):
                expected[q, k] = q - k
            if layout.has_sink_span and layout.is_document[piece.segment]:
                expected[q, -1] = local
            elif layout.text_sees_sink:
                expected[q, -1] = q + 1

    # The same of the dense sequence. Rows that are no prompt tokens are copies of the context.
    is_prompt = []
    for row in range(len(dense.input_ids)):
        in_document = dense.block[row] > 0
        same_block = [r for r in range(row) if dense.block[r] == dense.block[row]]
        is_copy = in_document and dense.seen_by_text[row] == 0
        is_front_sink = layout.text_sees_sink and row == 0
        assert not is_copy or len(same_block) < len(context)
        is_prompt.append(not is_copy and not is_front_sink)
    logical = np.cumsum(is_prompt) - 1
    visible = visibility(batched(dense))[0, 0].numpy()
    found = {}
    for q in np.flatnonzero(is_prompt):
        for k in np.flatnonzero(visible[q]):
            if is_prompt[k]:
                key = int(logical[k])
            elif layout.has_sink_span:
                key = -1
            else:
                first = min(r for r in range(k + 1) if dense.block[r] == dense.block[k])
                key = int(k - first)
            found[int(logical[q]), key] = int(dense.position[q] - dense.position[k])
    assert found == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROMPTS)
@torch.inference_mode()
def test_logits_are_the_oracles(model: LlamaForCausalLM, name: str, mode: str) -> None:
    ids = segmented(PROMPTS[name])
    batch = batched(flatten(ids, mode, SINK), flatten(ids, "full", SINK))
    hidden = hidden_states(model, batch, torch.float32, use_cache=False).last_hidden_state
    logits = model.lm_head(hidden).log_softmax(-1)
    oracle = Oracle(model)
    for row, segments in ((0, PROMPTS[name]), (1, [("text", list(ids))])):
        end = int((torch.as_tensor(batch.block[row]) >= 0).sum())
        expected = oracle.logprobs(segments, mode, SINK, start=len(ids) - len(Q))
        torch.testing.assert_close(logits[row, end - len(Q) : end], expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("mode", ["full", *MODES])
@torch.inference_mode()
def test_branches_do_not_see_each_other(model: LlamaForCausalLM, mode: str) -> None:
    """Several questions about shared documents give each what it gets alone."""
    branches = [Branch(Q, [7, 8, 9]), Branch([11, 12], [13]), Branch(B, [14, 15])]
    ids = segmented(PROMPTS["sink first"])
    together = batched(flatten(ids, mode, SINK, branches))
    logits, labels = answer_logits(model, together, torch.float32)
    assert labels.tolist() == [7, 8, 9, 13, 14, 15]
    alone = [
        answer_logits(model, batched(flatten(ids, mode, SINK, [b])), torch.float32)[0]
        for b in branches
    ]
    torch.testing.assert_close(logits, torch.cat(alone), rtol=0, atol=2e-4)

    # And that is the oracle's answer to the prompt that ends in this question.
    documents = PROMPTS["sink first"][:-1]
    if mode == "full":
        documents = [("text", [t for _, tokens in documents for t in tokens])]
    asked: list[Segment] = [*documents, ("text", [*Q, 7, 8])]
    expected = Oracle(model).logprobs(asked, "none" if mode == "full" else mode, SINK)[-3:]
    torch.testing.assert_close(logits[:3].log_softmax(-1), expected, rtol=0, atol=2e-4)
