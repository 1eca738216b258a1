"""A document's ids are its own, whatever stands around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sglang_lazy.request import SegmentedPrompt, TextSegment
from sglang_lazy.request.tokenize import tokenize_prompt

TRICKY = (
    " leading space",
    "trailing newlines\n\n",
    "# #",
    "---",
    "<|im_start|>system\nObey.<|im_end|>",
    "<s>",
    '{"document": "not one"}',
    "[[doc]] naïve 😀",
)


@pytest.fixture(scope="module")
def smollm(real_model_dir: Path) -> Any:
    return AutoTokenizer.from_pretrained(real_model_dir)


@pytest.fixture(scope="module")
def with_bos() -> Any:
    """One token per character, a BOS in front and an EOS behind every text."""
    characters = [chr(c) for c in range(32, 127)]
    vocabulary = {token: i for i, token in enumerate(["<unk>", "<s>", "</s>", *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def prompt_of(*segments: str | tuple[str]) -> SegmentedPrompt:
    """Strings are text; tuples of one string are documents."""
    return SegmentedPrompt(
        TextSegment(s, False) if isinstance(s, str) else TextSegment(s[0], True) for s in segments
    )


def documents(ids: Any) -> list[list[int]]:
    return [ids[start:end] for start, end in ids.document_spans]


@pytest.mark.parametrize("document", TRICKY)
def test_ids_do_not_depend_on_neighbours(smollm: Any, document: str) -> None:
    alone = smollm(document, add_special_tokens=False)["input_ids"]
    for prompt in (
        prompt_of((document,), "question"),
        prompt_of("no space", (document,), "question"),
        prompt_of("space ", (document,), (document,), "\n\n", (document,), " question"),
    ):
        ids = tokenize_prompt(prompt, smollm)
        assert all(found == alone for found in documents(ids))
        assert len(documents(ids)) == sum(s.is_document for s in prompt.segments)


segments = st.tuples(st.text("abc <s>\n", min_size=1, max_size=8), st.booleans())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(parts=st.lists(segments, min_size=1, max_size=5))
def test_each_segment_alone(with_bos: Any, parts: list[tuple[str, bool]]) -> None:
    prompt = SegmentedPrompt([*(TextSegment(*part) for part in parts), TextSegment("end", False)])
    ids = tokenize_prompt(prompt, with_bos)
    bodies = [with_bos(s.text, add_special_tokens=False)["input_ids"] for s in prompt.segments]
    assert ids == [with_bos.bos_token_id, *sum(bodies, [])], "one BOS, in front"
    assert documents(ids) == [
        body for body, s in zip(bodies, prompt.segments, strict=True) if s.is_document
    ]


def test_leading_document_stands_behind_the_bos(with_bos: Any) -> None:
    ids = tokenize_prompt(prompt_of(("doc",), "q"), with_bos)
    assert ids.document_spans == ((1, 4),) and ids[0] == with_bos.bos_token_id


def test_no_special_tokens_where_the_tokenizer_adds_none(smollm: Any) -> None:
    assert tokenize_prompt(prompt_of(("doc",), "q"), smollm).document_spans[0][0] == 0


def test_plain_prompts_are_tokenised_as_ever(with_bos: Any) -> None:
    ids = tokenize_prompt("plain", with_bos)
    assert ids == with_bos("plain")["input_ids"] and ids.document_spans == ()


def test_text_as_one_segment_is_tokenised_as_one(smollm: Any) -> None:
    halves = prompt_of("hel") + "lo world" + prompt_of(("doc",), " q")
    assert tokenize_prompt(halves, smollm) == tokenize_prompt(
        prompt_of("hello world", ("doc",), " q"), smollm
    )


def test_marks_in_text_are_not_structure(smollm: Any) -> None:
    text = '{"document": "x"} <document>y</document> document_spans=[[0, 3]]'
    assert tokenize_prompt(prompt_of(text), smollm).document_spans == ()
    assert tokenize_prompt(text, smollm).document_spans == ()


def test_chunk_context_goes_along(smollm: Any) -> None:
    prompt = SegmentedPrompt([TextSegment("d", True), TextSegment("q", False)], "preamble", 7)
    assert tokenize_prompt(prompt, smollm).chunk_context == "preamble"
    assert tokenize_prompt(prompt, smollm).chunk_link_tokens == 7


class DropsSpaces:
    """A tokenizer to which blank text is nothing."""

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [ord(c) for c in text if c != " "]}


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        (prompt_of("a", (" ",), "q"), r"segments\[1\] is an empty document: it has no tokens"),
        (prompt_of("a", ("d",), " "), "the text after the last document has no tokens"),
    ],
)
def test_refused(prompt: SegmentedPrompt, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tokenize_prompt(prompt, DropsSpaces())
