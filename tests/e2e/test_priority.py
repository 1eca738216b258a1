"""Two requests run at once, and more important ones take their places."""

from collections.abc import Callable

import pytest

from .prompts import Prompt, Writer
from .subject import Subject, assert_reuse
from .traffic import Stream, traffic

pytestmark = pytest.mark.server


@pytest.fixture
def crowded(make_subject: Callable[..., Subject]) -> Subject:
    return make_subject(
        "sink", max_total_tokens=900, max_running_requests=2, enable_priority_scheduling=True
    )


def low_ones(subject: Subject, writer: Writer, max_new_tokens: int) -> list[Stream]:
    """Two that decode, with a document and without a sink of their own."""
    document = writer.story(1, 40)
    prompts = [Prompt.of((document,), writer.story(2 + i, 9)) for i in range(2)]
    streams = [Stream(subject, p, max_new_tokens=max_new_tokens, priority=0) for p in prompts]
    return [stream.wait_for(2) for stream in streams]


def retractions(streams: list[Stream]) -> int:
    return sum(stream.check().meta_info["num_retractions"] for stream in streams)


def test_preemption(crowded: Subject, writer: Writer) -> None:
    low = low_ones(crowded, writer, max_new_tokens=60)
    prompt = Prompt.of(writer.story(6, 20), (writer.story(1, 40),), writer.story(7, 9))
    with traffic() as background:
        high = background.send(crowded, prompt, priority=100)
        assert_reuse(high.result(60), 40, documents=1, hits=1)
        assert retractions(low) > 0
    again = crowded.ask(Prompt.of((writer.story(1, 40),), writer.story(2, 9)))
    assert again.chunk_cache["hits"] == 1


def test_below_the_threshold_everybody_waits(crowded: Subject, writer: Writer) -> None:
    low = low_ones(crowded, writer, max_new_tokens=30)
    prompt = Prompt.of(writer.story(6, 20), (writer.story(1, 40),), writer.story(7, 9))
    with traffic() as background:
        high = background.send(crowded, prompt, priority=10)
        high.result(60)
        assert retractions(low) == 0


def test_preempted_in_vain(crowded: Subject, writer: Writer) -> None:
    """One makes room, and it is not enough for heads that are encoded beside the prompt.

    SGLang forgets those who made room for a request that is not admitted.
    """
    low = low_ones(crowded, writer, max_new_tokens=200)
    documents = [(writer.story(8 + i, 41),) for i in range(10)]
    subject = crowded.with_link_tokens(36)
    with traffic() as background:
        high = background.send(subject, Prompt.of(*documents, writer.story(7, 9)), priority=100)
        assert retractions(low) > 0
        high.result(60)


def test_disconnect_of_the_preempted(crowded: Subject, writer: Writer) -> None:
    low = low_ones(crowded, writer, max_new_tokens=200)
    prompt = Prompt.of(writer.story(6, 20), (writer.story(1, 40),), writer.story(7, 9))
    with traffic() as background:
        high = [background.send(crowded, prompt, priority=100, max_new_tokens=60) for _ in (1, 2)]
        for stream in low:
            stream.disconnect()
        for future in high:
            future.result(60)
    crowded.server.flush_cache()
    assert_reuse(crowded.ask(prompt), 0, documents=1, hits=0)
