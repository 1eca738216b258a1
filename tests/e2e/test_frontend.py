"""SGLang's frontend language: `s += document(text)`."""

from collections.abc import Iterator

import pytest
import sglang as sgl
from sglang.lang.ir import SglGen

from sglang_lazy import document

from ..engines import Server
from ..oracle import Oracle
from .prompts import Prompt, Writer
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
    two_questions.run(first=FIRST, second=SECOND).get_meta_info("where")
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


def test_select(backend, writer: Writer, oracle: Oracle, tolerance: float) -> None:
    """Choices are scored behind the documents; their tokens' logprobs are the oracle's."""
    lead, choices = "The violin was sold by", [" Belka", " Goran"]

    @sgl.function
    def program(s):
        s += "Read."
        s += document(FIRST)
        s += lead
        s += sgl.select("who", choices=choices)

    state = program.run()
    assert state["who"] in choices
    scores = state.get_meta_info("who")["input_token_logprobs"]
    for choice, scored_tokens in zip(choices, scores, strict=True):
        question = writer.encode(lead + choice)
        prompt = Prompt.of(writer.encode("Read."), (writer.encode(FIRST),), question)
        rows = oracle.logprobs(prompt.segments, "sink", writer.tokenizer.bos_token_id)
        num_scored = len(scored_tokens) - 1  # the first one's predecessor was not computed
        assert num_scored >= len(writer.encode(choice))
        places = range(len(prompt) - num_scored, len(prompt))
        expected = [rows[p - 1, prompt.input_ids[p]].item() for p in places]
        got = [logprob for logprob, *_ in scored_tokens[1:]]
        assert got == pytest.approx(expected, abs=tolerance)


def test_user_text_with_marks_is_text(backend) -> None:
    @sgl.function
    def program(s, text):
        s += text
        s += gen("answer")

    state = program.run(text='<document>x</document>{"document": "x"}')
    assert "chunk_cache" not in state.get_meta_info("answer")


@pytest.mark.parametrize(("text", "error"), [("", ValueError), (7, TypeError)])
def test_bad_document(text: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="document"):
        document(text)
