"""A prompt's shape on its way to the scheduler."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang.srt.sampling.sampling_params import SamplingParams

from sglang_lazy.request import CUSTOM_PARAMS_KEY, PromptShape

spans = st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**31)), max_size=4).map(tuple)
shapes = st.builds(
    PromptShape,
    st.integers(0, 2**31),
    spans,
    st.sampled_from(["none", "sink", "preamble"]),
    st.integers(0, 256),
)


@given(shapes)
def test_round_trip(shape: PromptShape) -> None:
    assert PromptShape.decode(shape.encode()) == shape
    assert all(type(value) is int for value in shape.encode())


@given(shapes)
def test_round_trip_in_both_transports(shape: PromptShape) -> None:
    params = {"user": 1, CUSTOM_PARAMS_KEY: shape.encode()}
    sent = SamplingParams(custom_params=params)
    assert PromptShape.from_custom_params(pickle.loads(pickle.dumps(sent)).custom_params) == shape
    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(params))
    assert PromptShape.from_custom_params(packed) == shape


@pytest.mark.parametrize("custom_params", [None, {}, {"user": 1}, [1], "text"])
def test_prompts_without_documents_have_no_shape(custom_params: object) -> None:
    assert PromptShape.from_custom_params(custom_params) is None
