"""Request fields of one prompt or of a batch."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sglang_lazy.request import SegmentedIds, SegmentedPrompt
from sglang_lazy.request.batch import structured_inputs

ONE = [{"document": "d"}, {"text": "q"}]


def test_plain_inputs_pass_unchanged() -> None:
    text, ids = ["a"], [[1]]
    assert structured_inputs(text, None, None, None, None)[0] is text
    assert structured_inputs(None, ids, None, None, None)[1] is ids


def test_one_prompt() -> None:
    text, ids = structured_inputs(None, None, ONE, None, "none")
    assert isinstance(text, SegmentedPrompt) and text == "dq" and ids is None
    assert text.chunk_context == "none"


def test_batch_of_segments() -> None:
    text, ids = structured_inputs(None, None, [ONE, "plain", ONE], None, ["none", None, "sink"])
    assert text == ["dq", "plain", "dq"] and ids is None
    assert type(text[1]) is str
    assert [text[0].chunk_context, text[2].chunk_context] == ["none", "sink"]


def test_one_mode_for_a_batch() -> None:
    text, _ = structured_inputs(None, None, [ONE, ONE], None, "preamble")
    assert [prompt.chunk_context for prompt in text] == ["preamble", "preamble"]


def test_link_tokens_for_a_batch() -> None:
    for given, expected in ((3, [3, 3]), ([0, None], [0, None]), (None, [None, None])):
        text, _ = structured_inputs(None, None, [ONE, ONE], None, None, given)
        assert [prompt.chunk_link_tokens for prompt in text] == expected
        _, ids = structured_inputs(None, [[1, 2]] * 2, None, [[[0, 1]]] * 2, None, given)
        assert [prompt.chunk_link_tokens for prompt in ids] == expected


def test_options_go_with_plain_text() -> None:
    """Only where the text is split can one know whether it has documents."""
    one, _ = structured_inputs("a", None, None, None, "sink", 3)
    assert one == "a" and one.options == {"chunk_context": "sink", "chunk_link_tokens": 3}
    copied = pickle.loads(pickle.dumps(one))
    assert copied == "a" and copied.options == one.options
    batch, _ = structured_inputs(["a", "b"], None, None, None, [None, "none"])
    assert batch == ["a", "b"] and type(batch[0]) is str
    assert batch[1].options["chunk_context"] == "none"
    with pytest.raises(ValueError, match="chunk_context needs segments or document_spans"):
        one.refuse()


def test_ids_with_spans() -> None:
    text, ids = structured_inputs(None, [1, 2, 3], None, [[0, 2]], None)
    assert text is None and isinstance(ids, SegmentedIds)
    assert (ids, ids.document_spans) == ([1, 2, 3], ((0, 2),))


def test_batch_of_ids_with_spans() -> None:
    _, ids = structured_inputs(None, [[1, 2], [3, 4]], None, [[[0, 1]], None], "none")
    assert ids == [[1, 2], [3, 4]]
    assert [prompt.document_spans for prompt in ids] == [((0, 1),), ()]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"segments": ONE, "text": "a"}, "give a prompt either as segments, or as text"),
        ({"segments": ONE, "input_ids": [1]}, "give a prompt either as segments"),
        ({"segments": ONE, "document_spans": [[0, 1]]}, "give a prompt either as segments"),
        ({"document_spans": [[0, 1]]}, "document_spans needs input_ids"),
        ({"document_spans": [[0, 1]], "text": "a"}, "mark documents in text by segments"),
        ({"chunk_context": "sink", "input_ids": [1]}, "chunk_context needs segments or document_s"),
        ({"chunk_context": "bos", "text": "a"}, "chunk_context must be one of"),
        ({"chunk_context": ["sink"], "text": ["a", "b"]}, "or a list of 2 modes"),
        ({"chunk_link_tokens": [1, -2], "text": ["a", "b"]}, "prompt 1 of the batch: chunk_link_t"),
        ({"segments": [ONE, [{"document": "d"}]]}, "prompt 1 of the batch: the prompt ends in a"),
        ({"segments": [ONE, 3]}, "prompt 1 of the batch: segments must be a list"),
        (
            {"text": "t", "input_ids": [1, 2, 3], "document_spans": [[0, 1]]},
            "give a prompt either as text, or as input_ids",
        ),
        ({"segments": []}, "segments is empty"),
        ({"segments": "abc"}, "segments must be a list of objects"),
        ({"segments": [ONE], "chunk_context": ["sink"] * 2}, "or a list of 1 modes"),
        ({"segments": [ONE], "chunk_context": 3}, "chunk_context must be one mode, or a list"),
        ({"chunk_link_tokens": 1, "input_ids": [1]}, "chunk_link_tokens needs segments or documen"),
        ({"segments": [ONE], "chunk_link_tokens": [1, 2]}, "or a list of 1 numbers"),
        ({"segments": [ONE, ONE], "chunk_link_tokens": [1, -2]}, "prompt 1 of the batch: chunk_l"),
        ({"segments": [ONE], "chunk_link_tokens": "4"}, "chunk_link_tokens must be an integer"),
        (
            {"input_ids": [[1, 2], [3]], "document_spans": [[[0, 1]]]},
            "document_spans must have one list for each of the 2 prompts",
        ),
        (
            {"input_ids": [[1, 2], [3]], "document_spans": [None, [[0, 1]]]},
            "prompt 1 of the batch: the prompt ends in a document",
        ),
    ],
)
def test_refused(fields: dict[str, Any], says: str) -> None:
    names = ("text", "input_ids", "segments", "document_spans", "chunk_context")
    names += ("chunk_link_tokens",)
    with pytest.raises(ValueError, match=says):
        structured_inputs(*(fields.get(name) for name in names))
