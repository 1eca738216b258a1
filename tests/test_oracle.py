"""The oracle against plain Hugging Face forwards and against a second construction."""

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import rotate_half

from .oracle import Mode, Oracle, Segment

SINK = 1
S, A, B, Q = [5, 9, 2, 77, 31], [40, 41, 42, 43, 44, 45, 46], [60, 3, 62], [90, 17, 91, 23]
TOLERANCE = {"rtol": 0, "atol": 2e-4}

PROMPTS: dict[str, list[Segment]] = {
    "text only": [("text", S + Q)],
    "one document": [("text", S), ("document", A), ("text", Q)],
    "two documents": [("text", S), ("document", A), ("document", B), ("text", Q)],
    "text between": [("text", S), ("document", A), ("text", Q), ("document", B), ("text", S)],
    "repeated": [("text", S), ("document", A), ("document", A), ("text", Q)],
    "split text": [("text", S[:2]), ("text", S[2:]), ("document", A), ("text", Q)],
    "document first": [("document", A), ("document", B), ("text", Q)],
    "tiny": [("text", S[:1]), ("document", A[:1]), ("text", Q[:1])],
    "sink first": [("text", [SINK, *S]), ("document", A), ("document", B), ("text", Q)],
}


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    """A small random model whose attention is peaked, so that positions matter."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.25)
    return model


@torch.inference_mode()
def plain(model: LlamaForCausalLM, ids: list[int]) -> torch.Tensor:
    return model(torch.tensor([ids])).logits[0].log_softmax(-1)


def flat(segments: list[Segment]) -> list[int]:
    return [token for _, ids in segments for token in ids]


class SegmentwiseForward:
    """The same rules by another route: encode, store, rotate the keys, then read.

    Documents are encoded one by one at local positions; their keys are rotated
    to logical positions in fp64 and put into the cache that text reads.
    """

    def __init__(self, model: LlamaForCausalLM, link_tokens: int = 0) -> None:
        self.model = model
        self.link_tokens = link_tokens

    def logprobs(self, segments: list[Segment], mode: Mode) -> torch.Tensor:
        past = DynamicCache()
        preamble: list[int] = []
        rows: list[torch.Tensor] = []
        start = 0
        if mode == "sink" and segments[0][0] == "document" and not self.link_tokens:
            self._append(past, self._encode([SINK])[1], first=0, offset=-1)
        seen_document = False
        for kind, ids in segments:
            if kind == "text":
                rows.append(self._read(ids, start, past))
                preamble += [] if seen_document else ids
            else:
                seen_document = True
                context = {"none": [], "sink": [SINK], "preamble": preamble}[mode]
                if head := ids[: self.link_tokens]:
                    rows.append(self._read(head, start, past))
                if len(head) < len(ids):
                    logits, cache = self._encode([*context, *ids])
                    first = len(context) + len(head)
                    rows.append(logits[first:])
                    self._append(past, cache, first, offset=start - len(context))
            start += len(ids)
        return torch.cat(rows).log_softmax(-1)

    def _read(self, ids: list[int], start: int, past: DynamicCache) -> torch.Tensor:
        """Text: it sees all that was read before, and stays."""
        output = self.model(
            torch.tensor([ids]),
            position_ids=torch.arange(start, start + len(ids))[None],
            past_key_values=past,
        )
        return output.logits[0]

    def _encode(self, ids: list[int]) -> tuple[torch.Tensor, DynamicCache]:
        output = self.model(torch.tensor([ids]), past_key_values=DynamicCache())
        return output.logits[0], output.past_key_values

    def _append(self, past: DynamicCache, cache: DynamicCache, first: int, offset: int) -> None:
        """Append `cache` from token `first` on, its keys moved by `offset` positions."""
        angle = offset * self.model.model.rotary_emb.inv_freq.double()
        cos, sin = torch.cat([angle, angle]).cos(), torch.cat([angle, angle]).sin()
        for index, layer in enumerate(cache.layers):
            keys = layer.keys[:, :, first:].double()
            keys = (keys * cos + rotate_half(keys) * sin).float()
            past.update(keys, layer.values[:, :, first:], index)


@pytest.mark.parametrize("link_tokens", [0, 1, 2, 4])
@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
@pytest.mark.parametrize("name", PROMPTS)
def test_matches_segmentwise_forward(model, name: str, mode: Mode, link_tokens: int) -> None:
    segments = PROMPTS[name]
    got = Oracle(model).logprobs(segments, mode, SINK, link_tokens=link_tokens)
    with torch.inference_mode():
        expected = SegmentwiseForward(model, link_tokens).logprobs(segments, mode)
    torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
def test_without_documents_is_plain_causal(model, mode: Mode) -> None:
    got = Oracle(model).logprobs([("text", S), ("text", A + Q)], mode, SINK)
    torch.testing.assert_close(got, plain(model, S + A + Q), **TOLERANCE)


def test_first_document_behind_its_preamble_is_plain_causal(model) -> None:
    segments = PROMPTS["one document"]
    got = Oracle(model).logprobs(segments, "preamble")
    torch.testing.assert_close(got, plain(model, flat(segments)), **TOLERANCE)


def test_later_document_does_not_see_the_first(model) -> None:
    """Its own rows are those of the preamble and the document alone, at local distance."""
    got = Oracle(model).logprobs(PROMPTS["two documents"], "preamble")
    start = len(S + A)
    expected = plain(model, S + B)[len(S) :]
    torch.testing.assert_close(got[start : start + len(B)], expected, **TOLERANCE)


def test_preamble_of_one_sink_token_equals_sink(model) -> None:
    segments: list[Segment] = [
        ("text", [SINK]),
        ("document", A),
        ("text", Q),
        ("document", B),
        ("text", Q),
    ]
    oracle = Oracle(model)
    torch.testing.assert_close(
        oracle.logprobs(segments, "sink", SINK), oracle.logprobs(segments, "preamble"), **TOLERANCE
    )


@pytest.mark.parametrize("mode", ["none", "sink"])
def test_document_rows_do_not_depend_on_the_prompt(model, mode: Mode) -> None:
    oracle = Oracle(model)
    alone = oracle.logprobs([("document", B), ("text", Q)], mode, SINK)[: len(B)]
    for start, segments in [
        (len(S + A), [("text", S), ("document", A), ("document", B), ("text", Q)]),
        (1, [("text", Q[:1]), ("document", B), ("document", A), ("text", Q)]),
    ]:
        rows = oracle.logprobs(segments, mode, SINK)[start : start + len(B)]
        torch.testing.assert_close(rows, alone, **TOLERANCE)


def test_order_of_documents_matters_to_text(model) -> None:
    """Text sees documents where they stand, so swapping them changes its rows."""
    oracle = Oracle(model)
    one = oracle.logprobs([("text", S), ("document", A), ("document", B), ("text", Q)])
    other = oracle.logprobs([("text", S), ("document", B), ("document", A), ("text", Q)])
    assert (one[-1] - other[-1]).abs().max() > 0.05


def test_modes_differ(model) -> None:
    """The repairs change what is computed: a test of one mode cannot pass as another."""
    oracle = Oracle(model)
    segments = PROMPTS["two documents"]
    none, sink, preamble = (
        oracle.logprobs(segments, mode, SINK)[-1] for mode in ("none", "sink", "preamble")
    )
    for one, other in [(none, sink), (none, preamble), (sink, preamble)]:
        assert (one - other).abs().max() > 0.05


@pytest.mark.parametrize("mode", ["none", "sink", "preamble"])
def test_documents_of_link_tokens_only_are_plain_causal(model, mode: Mode) -> None:
    segments = PROMPTS["text between"]
    got = Oracle(model).logprobs(segments, mode, SINK, link_tokens=len(A))
    torch.testing.assert_close(got, plain(model, flat(segments)), **TOLERANCE)


def test_link_tokens_change_what_is_computed(model) -> None:
    oracle = Oracle(model)
    segments = PROMPTS["two documents"]
    rows = [oracle.logprobs(segments, "none", link_tokens=k)[-1] for k in (0, 1, 2)]
    for one, other in [(rows[0], rows[1]), (rows[1], rows[2])]:
        assert (one - other).abs().max() > 0.05


@pytest.mark.parametrize("mode", ["none", "sink"])
def test_tail_rows_do_not_depend_on_link_tokens(model, mode: Mode) -> None:
    """What is left of a document is what it is without them."""
    oracle = Oracle(model)
    segments = PROMPTS["two documents"]
    rows = [oracle.logprobs(segments, mode, SINK, link_tokens=k) for k in (0, 2)]
    tail = slice(len(S) + 2, len(S + A))
    torch.testing.assert_close(rows[0][tail], rows[1][tail], **TOLERANCE)


def test_sink_needs_a_token(model) -> None:
    with pytest.raises(ValueError, match="sink_token_id"):
        Oracle(model).logprobs(PROMPTS["one document"], "sink")
