"""Prompts that carry structure behave as the strings they are."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_lazy.request import (
    SegmentedIds,
    SegmentedPrompt,
    TextSegment,
    parse_document_spans,
    parse_segments,
)

segments = st.builds(TextSegment, st.text(max_size=5), st.booleans())
prompts = st.builds(
    SegmentedPrompt, st.lists(segments, max_size=4), st.sampled_from([None, "none"])
)
strings = st.text(max_size=5) | prompts


def characters(text: str) -> list[tuple[str, int | None]]:
    """Each character with the number of its document, or None."""
    parts = text.segments if isinstance(text, SegmentedPrompt) else [TextSegment(text, False)]
    return [(c, i if part.is_document else None) for i, part in enumerate(parts) for c in part.text]


def kinds(text: str) -> list[tuple[str, bool]]:
    return [(c, document is not None) for c, document in characters(text)]


@given(strings, strings)
def test_adding_is_concatenation(left: str, right: str) -> None:
    both = left + right
    assert both == str.__add__(left, right)
    if isinstance(left, SegmentedPrompt) or isinstance(right, SegmentedPrompt):
        assert isinstance(both, SegmentedPrompt)
        assert kinds(both) == kinds(left) + kinds(right)
        # Documents that meet stay two documents.
        count = [sum(s.is_document for s in getattr(x, "segments", ())) for x in (left, right)]
        assert sum(s.is_document for s in both.segments) == sum(count)


@given(prompts, prompts)
def test_text_that_meets_text_is_one_segment(left: SegmentedPrompt, right: SegmentedPrompt) -> None:
    joined = left + right
    boundary = len(left.segments)
    if left.segments and right.segments and not (
        left.segments[-1].is_document or right.segments[0].is_document
    ):  # fmt: skip
        assert len(joined.segments) == boundary + len(right.segments) - 1
    else:
        assert joined.segments == left.segments + right.segments


@given(prompts, st.slices(12))
def test_slices_keep_structure(prompt: SegmentedPrompt, index: slice) -> None:
    cut = prompt[index]
    assert cut == str.__getitem__(prompt, index)
    if index.step in (None, 1):
        assert kinds(cut) == kinds(prompt)[index]
        assert all(s.text for s in cut.segments)


@given(prompts)
def test_copies_keep_structure(prompt: SegmentedPrompt) -> None:
    for same in (
        str(prompt),
        prompt[:],
        copy.copy(prompt),
        copy.deepcopy(prompt),
        pickle.loads(pickle.dumps(prompt)),
    ):
        assert same == prompt
        assert kinds(same) == kinds(prompt)
        assert same.chunk_context == prompt.chunk_context


@given(prompts)
def test_is_an_ordinary_string(prompt: SegmentedPrompt) -> None:
    plain = "".join(s.text for s in prompt.segments)
    assert prompt == plain and hash(prompt) == hash(plain) and len(prompt) == len(plain)
    assert f"{prompt}" == plain and json.loads(json.dumps(prompt)) == plain
    assert {plain: 1}[prompt] == 1


def test_in_place_addition_to_a_plain_string() -> None:
    text = "a"
    text += SegmentedPrompt([TextSegment("d", True)])
    text += "q"
    assert isinstance(text, SegmentedPrompt)
    assert text.to_json() == [{"text": "a"}, {"document": "d"}, {"text": "q"}]


def test_characters_and_strides_are_plain() -> None:
    prompt = SegmentedPrompt([TextSegment("abc", True)])
    assert type(prompt[0]) is str and type(prompt[::2]) is str


@pytest.mark.parametrize("other", [1, None, b"x"])
def test_adding_something_else(other: Any) -> None:
    prompt = SegmentedPrompt([TextSegment("a", True)])
    with pytest.raises(TypeError):
        prompt + other
    with pytest.raises(TypeError):
        other + prompt


def test_parsed_segments_say_what_was_written() -> None:
    written = [{"text": "a"}, {"document": "b"}, {"document": "c"}, {"text": "d"}]
    prompt = parse_segments(written, "preamble")
    assert prompt == "abcd" and prompt.to_json() == written
    assert prompt.chunk_context == "preamble" and prompt.has_documents
    assert not parse_segments([{"text": "a"}]).has_documents


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("abc", "segments must be a list of objects; got str"),
        ({"text": "a"}, "segments must be a list of objects; got dict"),
        (3, "segments must be a list of objects; got int"),
        ([], "segments is empty; a prompt needs at least one text segment"),
        (["a"], r"segments\[0\] must be an object .*; got str"),
        ([{"text": "a"}, {"txet": "b"}], r"segments\[1\] has the unknown key txet"),
        ([{}], r"segments\[0\] must have exactly one of the keys"),
        ([{"text": "a", "document": "b"}], r"segments\[0\] must have exactly one"),
        ([{"text": 3}], r"segments\[0\]\['text'\] must be a string; got int"),
        ([{"document": ""}, {"text": "a"}], r"segments\[0\] is an empty document"),
        ([{"text": "a"}, {"document": "b"}], "the prompt ends in a document"),
    ],
)
def test_refused_segments(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_segments(given)


@pytest.mark.parametrize("value", ["Sink", "", 3, ["sink"]])
def test_refused_chunk_context(value: Any) -> None:
    with pytest.raises(ValueError, match="chunk_context must be one of none, sink, preamble; got"):
        parse_segments([{"text": "a"}], value)


@pytest.mark.parametrize("value", [-1, 257, 1.0, True, "4", [4]])
def test_refused_link_tokens(value: Any) -> None:
    with pytest.raises(ValueError, match="chunk_link_tokens must be an integer from 0 to 256; got"):
        parse_segments([{"text": "a"}], None, value)
    with pytest.raises(ValueError, match="chunk_link_tokens must be an integer"):
        parse_document_spans([5, 6], [[0, 1]], None, value)


@pytest.mark.parametrize("value", [None, 0, 256])
def test_link_tokens_stay_with_a_prompt(value: int | None) -> None:
    prompt = parse_segments([{"document": "abc"}, {"text": "d"}], None, value)
    for same in (copy.copy(prompt), pickle.loads(pickle.dumps(prompt)), prompt[1:], "a" + prompt):
        assert same.chunk_link_tokens == value
    assert (SegmentedPrompt([TextSegment("a", True)]) + prompt).chunk_link_tokens == value
    ids = parse_document_spans([5, 6], [[0, 1]], None, value)
    for same in (copy.copy(ids), copy.deepcopy(ids), pickle.loads(pickle.dumps(ids))):
        assert same.chunk_link_tokens == value


def test_parsed_spans_are_the_ids_with_structure() -> None:
    ids = parse_document_spans([5, 6, 7, 8], [[0, 2], (2, 3)], "none")
    assert ids == [5, 6, 7, 8] and isinstance(ids, list)
    assert ids.document_spans == ((0, 2), (2, 3)) and ids.chunk_context == "none"
    assert parse_document_spans([5], []).document_spans == ()


@pytest.mark.parametrize(
    ("ids", "spans", "says"),
    [
        (None, [[0, 1]], "document_spans needs input_ids"),
        (["a", "b"], [[0, 1]], "document_spans needs input_ids, a list of token ids"),
        ([True, 2], [[0, 1]], "document_spans needs input_ids, a list of token ids"),
        ([1, 2, 3], 4, "document_spans must be a list of"),
        ([1, 2, 3], "01", "document_spans must be a list of"),
        ([1, 2, 3], [3], r"document_spans\[0\] must be a pair of integers"),
        ([1, 2, 3], [[0, 1, 2]], r"document_spans\[0\] must be a pair of integers"),
        ([1, 2, 3], [[0, 1.0]], r"document_spans\[0\] must be a pair of integers"),
        ([1, 2, 3], [[False, True]], r"document_spans\[0\] must be a pair of integers"),
        ([1, 2, 3], [[0, 4]], r"document_spans\[0\] = \[0, 4\) runs past the prompt of 3 tokens"),
        ([1, 2, 3], [[-1, 1]], r"document_spans\[0\] = \[-1, 1\) runs past"),
        ([1, 2, 3], [[1, 1]], r"document_spans\[0\] = \[1, 1\) is an empty document"),
        ([1, 2, 3], [[2, 1]], r"document_spans\[0\] = \[2, 1\) is an empty document"),
        ([1, 2, 3], [[0, 2], [1, 2]], r"document_spans\[1\] = \[1, 2\) overlaps or precedes"),
        ([1, 2, 3], [[1, 2], [0, 1]], r"document_spans\[1\] = \[0, 1\) overlaps or precedes"),
        ([1, 2, 3], [[1, 3]], "the prompt ends in a document"),
    ],
)
def test_refused_spans(ids: Any, spans: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_document_spans(ids, spans)


def test_segmented_ids_survive_copies() -> None:
    ids = SegmentedIds([1, 2, 3], [(0, 2)], "sink")
    for same in (copy.copy(ids), copy.deepcopy(ids), pickle.loads(pickle.dumps(ids))):
        assert same == [1, 2, 3]
        assert (same.document_spans, same.chunk_context) == (((0, 2),), "sink")
