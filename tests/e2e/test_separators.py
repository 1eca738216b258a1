"""Plain text that `--chunk-separator` splits; the clients' server has one."""

from typing import Any

import openai
import pytest

from .clients import (
    FIRST,
    LENGTH,
    QUESTION,
    SECOND,
    SEPARATOR,
    SYSTEM,
    Clients,
    reused,
    text,
    user_turn,
)

pytestmark = pytest.mark.server

GREEDY = {"temperature": 0, "max_new_tokens": LENGTH}
SEPARATED = SEPARATOR.join(["Read.", FIRST, SECOND, QUESTION])
SEGMENTS = [{"text": "Read."}, {"document": FIRST}, {"document": SECOND}, {"text": QUESTION}]


def test_plain_prompt(clients: Clients) -> None:
    """`/generate`, a batch of it, and completions: separators are gone from the prompt."""
    expected = clients.segments(SEGMENTS)
    plain: dict[str, Any] = {"sampling_params": GREEDY}
    output = clients.server.generate(text=SEPARATED, **plain)
    batch = clients.server.generate(text=["Read.", SEPARATED], **plain)
    for each in (output, batch[1]):
        assert each["text"] == expected.text
        assert each["meta_info"]["prompt_tokens"] == expected.meta_info["prompt_tokens"]
        assert each["meta_info"]["chunk_cache"]["hits"] == 2
    assert "chunk_cache" not in batch[0]["meta_info"]
    response = clients.openai.completions.create(
        model="default", prompt=SEPARATED, temperature=0, max_tokens=LENGTH
    )
    assert response.choices[0].text == expected.text
    assert reused(response.usage) == response.usage.prompt_tokens - 1


def test_chat_message(clients: Clients) -> None:
    """Each message is split by itself: what follows the last separator is text."""
    expected = clients.segments(user_turn(SEGMENTS))
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": SEPARATED},
    ]
    response = clients.chat(messages)
    assert response.choices[0].message.content == expected.text
    assert response.usage.prompt_tokens == expected.meta_info["prompt_tokens"]
    message = clients.anthropic.messages.create(
        model="default", system=SYSTEM, messages=messages[1:], max_tokens=LENGTH
    )
    assert message.usage.cache_read_input_tokens == response.usage.prompt_tokens - 1
    messages += [{"role": "assistant", "content": "Belka."}, {"role": "user", "content": SEPARATED}]
    response = clients.chat(messages, extra={"return_meta_info": True})
    assert response.choices[0].meta_info["chunk_cache"]["documents"] == 4


def test_text_without_separator_is_ordinary(clients: Clients) -> None:
    output = clients.server.generate(text="Read. <|next", sampling_params=GREEDY)
    assert "chunk_cache" not in output["meta_info"]
    response = clients.ask(text("<| next |>"), extra={"return_meta_info": True})
    assert "chunk_cache" not in response.choices[0].meta_info


def test_structure_is_taken_as_it_is(clients: Clients) -> None:
    """A separator inside a segment or a document is text like any other."""
    segments = [{"text": "Read."}, {"document": SEPARATED}, {"text": QUESTION}]
    output = clients.server.generate(segments=segments, sampling_params=GREEDY)
    assert output["meta_info"]["chunk_cache"]["documents"] == 1


def test_prompt_must_end_in_text(clients: Clients) -> None:
    response = clients.server.post("/generate", text=f"Read.{SEPARATOR}{FIRST}{SEPARATOR}")
    assert response.status_code == 400
    assert "ends in a document" in response.text
    with pytest.raises(openai.BadRequestError, match="ends in a document"):
        clients.openai.completions.create(
            model="default", prompt=f"Read.{SEPARATOR}{FIRST}{SEPARATOR}"
        )
