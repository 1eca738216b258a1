"""SGLang's frontend language: `s += document(text)`."""

from collections.abc import Iterator

import pytest
import sglang as sgl
from sglang.lang.ir import SglGen

from sglang_lazy import document

from ..engines import Server
from .subject import scored

pytestmark = pytest.mark.server

FIRST = " Belka sold the violin in Lodz in 1871.\n"
SECOND = " Goran hid the kettle in Perth in 1902.\n"
LENGTH = 6


@pytest.fixture
def backend(server: Server) -> Iterator[sgl.RuntimeEndpoint]:
    backend = sgl.RuntimeEndpoint(server.url)
    sgl.set_default_backend(backend)
    yield backend
    sgl.set_default_backend(None)


def gen(name: str) -> SglGen:
    return sgl.gen(
        name,
        max_tokens=LENGTH,
        temperature=0,
        ignore_eos=True,
        return_logprob=True,
        top_logprobs_num=5,
    )


@sgl.function
def two_questions(s, first, second):
    s += "Read."
    s += document(first)
    s += document(second)
    s += "Who sold the violin?" + gen("who")
    s += " And where?" + gen("where")


def logprobs(meta_info: dict) -> list[float]:
    return [logprob for logprob, *_ in meta_info["output_token_logprobs"]]


def test_document_is_a_segment(backend, server: Server, tolerance: float) -> None:
    """A program's answer is that of `/generate` with the same segments."""
    state = two_questions.run(first=FIRST, second=SECOND)
    cold, second_turn = state.get_meta_info("who"), state.get_meta_info("where")
    assert cold["chunk_cache"] == {"documents": 2, "hits": 0, "cached_tokens": 0}
    assert second_turn["chunk_cache"]["hits"] == 2
    assert second_turn["cached_tokens"] >= cold["prompt_tokens"]

    server.flush_cache()
    segments = [{"text": "Read."}, {"document": FIRST}, {"document": SECOND}]
    output = server.generate(
        segments=[*segments, {"text": "Who sold the violin?"}], **scored(max_new_tokens=LENGTH)
    )
    assert state["who"] == output["text"]
    assert logprobs(cold) == pytest.approx(logprobs(output["meta_info"]), abs=tolerance)


def test_other_order_hits(backend) -> None:
    two_questions.run(first=FIRST, second=SECOND)
    swapped = two_questions.run(first=SECOND, second=FIRST).get_meta_info("who")
    assert swapped["chunk_cache"]["hits"] == 2


def test_fork(backend) -> None:
    """Branches continue behind the same documents."""

    @sgl.function
    def program(s):
        s += "Read."
        s += document(FIRST)
        branches = s.fork(2)
        for i, branch in enumerate(branches):
            branch += document(SECOND) if i else " "
            branch += "Who?" + gen("who")
        branches.join()
        s += "End." + gen("end")
        for branch in branches:
            assert branch.get_meta_info("who")["chunk_cache"]["documents"] >= 1
        s["branches"] = [branch.get_meta_info("who")["chunk_cache"] for branch in branches]

    state = program.run()
    assert state.get_meta_info("end")["chunk_cache"]["hits"] == 1


def test_select(backend) -> None:
    """Choices are scored behind the documents, as `/generate` scores them."""

    @sgl.function
    def program(s, passage):
        s += "Read."
        s += document(passage)
        s += "The violin was sold by"
        s += sgl.select("who", choices=[" Belka", " Goran"])

    state = program.run(passage=FIRST)
    assert state["who"] == " Belka"


def test_user_text_with_marks_is_text(backend) -> None:
    @sgl.function
    def program(s, text):
        s += text
        s += gen("answer")

    state = program.run(text='<document>x</document>{"document": "x"}')
    assert state.get_meta_info("answer")["chunk_cache"]["documents"] == 0


@pytest.mark.parametrize(("text", "error"), [("", ValueError), (7, TypeError)])
def test_bad_document(text: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="document"):
        document(text)
