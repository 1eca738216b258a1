"""The official `openai` client: chat completions, completions, and the Responses API."""

from typing import Any

import pytest

from .clients import (
    FIRST,
    LENGTH,
    QUESTION,
    SECOND,
    SYSTEM,
    Clients,
    document,
    reused,
    text,
    user_turn,
)

pytestmark = pytest.mark.server

PROMPT = user_turn([{"document": FIRST}, {"document": SECOND}, {"text": QUESTION}])
PARTS = (document(FIRST), document(SECOND), text(QUESTION))
TOOL = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}},
}


def prompt_ids(clients: Clients, segments: Any) -> list[int]:
    sampling = {"temperature": 0, "max_new_tokens": 1}
    output = clients.server.generate(
        segments=segments, sampling_params=sampling, return_prompt_token_ids=True
    )
    return output["prompt_token_ids"]


def test_document_parts_are_segments(clients: Clients) -> None:
    """The prompt is that of `/generate` with segments, token for token, and so is the answer."""
    expected = clients.segments(PROMPT)
    extra = dict.fromkeys(
        ("return_prompt_token_ids", "return_meta_info", "return_cached_tokens_details"), True
    )
    response = clients.ask(*PARTS, extra=extra)
    choice = response.choices[0]
    assert choice.message.content == expected.text
    assert response.usage.prompt_tokens == expected.meta_info["prompt_tokens"]
    assert reused(response.usage) == response.usage.prompt_tokens - 1
    assert response.sglext["cached_tokens_details"]["device"] == reused(response.usage)
    assert choice.meta_info["chunk_cache"]["hits"] == 2
    assert choice.prompt_token_ids == prompt_ids(clients, PROMPT)


def test_other_order_other_place(clients: Clients, tokenizer: Any) -> None:
    """Documents are found in another order, in another message, behind other text."""
    clients.ask(*PARTS)
    messages = [
        {"role": "user", "content": [text("Read this:"), document(SECOND), text("Done?")]},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": [document(FIRST), text(QUESTION)]},
    ]
    response = clients.chat(messages, extra={"return_meta_info": True})
    chunk_cache = response.choices[0].meta_info["chunk_cache"]
    num_tokens = sum(len(tokenizer.encode(each)) for each in (FIRST, SECOND))
    assert chunk_cache == {"documents": 2, "hits": 2, "cached_tokens": num_tokens}


def test_title_is_the_first_line(clients: Clients) -> None:
    whole = [{"document": f"Violins\n{FIRST}"}, {"text": QUESTION}]
    expected = clients.segments(user_turn(whole))
    response = clients.ask(document(FIRST, title="Violins"), text(QUESTION))
    assert response.usage.prompt_tokens == expected.meta_info["prompt_tokens"]
    assert reused(response.usage) == response.usage.prompt_tokens - 1


def test_stream(clients: Clients) -> None:
    whole = clients.ask(*PARTS)
    *_, last = chunks = list(
        clients.ask(*PARTS, stream=True, stream_options={"include_usage": True})
    )
    streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert streamed == whole.choices[0].message.content
    assert reused(last.usage) == last.usage.prompt_tokens - 1


def test_tools_and_parallel_answers(clients: Clients) -> None:
    whole = clients.ask(*PARTS)
    response = clients.ask(*PARTS, tools=[TOOL], n=3, extra={"return_meta_info": True})
    assert [c.message.content for c in response.choices] == [whole.choices[0].message.content] * 3
    assert all(c.meta_info["chunk_cache"]["hits"] == 2 for c in response.choices)


def test_documents_field(clients: Clients) -> None:
    """The test model's template takes no documents: they open the first user message."""
    titled = {"title": "Kettles", "text": SECOND, "doc_id": "k"}
    placed = [{"document": FIRST}, {"document": f"Kettles\n{SECOND}"}, {"text": f"\n\n{QUESTION}"}]
    expected = clients.segments(user_turn(placed))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    response = clients.chat(messages, extra={"documents": [FIRST, titled]})
    assert response.choices[0].message.content == expected.text
    assert response.usage.prompt_tokens == expected.meta_info["prompt_tokens"]
    assert reused(response.usage) == response.usage.prompt_tokens - 1


@pytest.mark.parametrize("in_field", [False, True], ids=["parts", "documents"])
def test_second_turn_reuses_the_first(clients: Clients, in_field: bool) -> None:
    extra = {"documents": [FIRST, SECOND]} if in_field else {}
    opening = list(PARTS[2:] if in_field else PARTS)
    messages: list[dict[str, Any]] = [{"role": "user", "content": opening}]
    first = clients.chat(messages, extra=extra)
    messages += [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "And where?"},
    ]
    second = clients.chat(messages, extra={**extra, "return_meta_info": True})
    # All of the first prompt and its answer, up to where tokens may merge.
    assert reused(second.usage) >= first.usage.prompt_tokens + first.usage.completion_tokens - 2
    assert second.choices[0].meta_info["chunk_cache"]["hits"] == 2


def test_new_document_in_a_later_turn(clients: Clients) -> None:
    clients.ask(document(SECOND), text(QUESTION))
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [document(FIRST), text(QUESTION)]},
        {"role": "assistant", "content": "Belka."},
        {"role": "user", "content": [text("And the kettle?"), document(SECOND)]},
    ]
    response = clients.chat(messages, extra={"return_meta_info": True})
    assert response.choices[0].meta_info["chunk_cache"]["documents"] == 2
    assert response.choices[0].meta_info["chunk_cache"]["hits"] == 1


def test_continued_answer(clients: Clients) -> None:
    """The answer's beginning is text behind the prompt with its documents."""
    *opening, last = PROMPT
    begun = {"text": last["text"] + "The violin was"}
    expected = clients.segments([*opening, begun])
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": list(PARTS)},
        {"role": "assistant", "content": "The violin was"},
    ]
    response = clients.chat(messages, extra={"continue_final_message": True})
    assert response.choices[0].message.content == expected.text
    assert reused(response.usage) == response.usage.prompt_tokens - 1


def test_context_can_be_overridden(clients: Clients) -> None:
    clients.ask(*PARTS)
    extra = {"chunk_context": "none", "return_meta_info": True}
    other = clients.ask(*PARTS, extra=extra)
    assert other.choices[0].meta_info["chunk_cache"]["hits"] == 0
    again = clients.ask(*PARTS, extra=extra)
    assert again.choices[0].meta_info["chunk_cache"]["hits"] == 2


def test_marks_in_text_are_text(clients: Clients) -> None:
    """What a user writes is never structure, be it the request's own notation."""
    mark = '[{"type": "document", "text": "x"}] document-0:0:0'
    response = clients.ask(text(mark), document(mark), text(mark), extra={"return_meta_info": True})
    assert response.choices[0].meta_info["chunk_cache"]["documents"] == 1
    expected = clients.segments(user_turn([{"text": mark}, {"document": mark}, {"text": mark}]))
    assert response.usage.prompt_tokens == expected.meta_info["prompt_tokens"]


def test_completions(clients: Clients) -> None:
    expected = clients.segments(PROMPT)
    sampling = {"model": "default", "temperature": 0, "max_tokens": LENGTH}
    for prompt in ("", None):
        response = clients.openai.completions.create(
            prompt=prompt, extra_body={"segments": PROMPT}, **sampling
        )
        assert response.choices[0].text == expected.text
        assert reused(response.usage) == response.usage.prompt_tokens - 1
    batch = clients.openai.completions.create(
        prompt="", extra_body={"segments": [PROMPT, "No documents."]}, **sampling
    )
    assert batch.choices[0].text == expected.text
    *_, last = chunks = list(
        clients.openai.completions.create(
            prompt="",
            extra_body={"segments": PROMPT},
            echo=True,
            stream=True,
            stream_options={"include_usage": True},
            **sampling,
        )
    )
    prompt_text = "".join(part for segment in PROMPT for part in segment.values())
    streamed = "".join(c.choices[0].text for c in chunks if c.choices)
    assert streamed == prompt_text + expected.text
    assert reused(last.usage) == last.usage.prompt_tokens - 1


def test_responses(clients: Clients) -> None:
    expected = clients.segments(PROMPT)
    fields: dict[str, Any] = {
        "model": "default",
        "instructions": SYSTEM,
        "temperature": 0,
        "max_output_tokens": LENGTH + 2,  # SGLang keeps two of them
    }

    def cached(response: Any) -> int:
        # SGLang names these as in chat completions, where the response is not streamed.
        return response.usage.prompt_tokens_details["cached_tokens"]

    content = [document(FIRST), document(SECOND), {"type": "input_text", "text": QUESTION}]
    turn: Any = [{"role": "user", "content": content}]
    response = clients.openai.responses.create(input=turn, **fields)
    num_tokens = response.usage.prompt_tokens
    assert response.output_text == expected.text
    assert num_tokens == expected.meta_info["prompt_tokens"]
    assert cached(response) == num_tokens - 1

    *_, last = clients.openai.responses.create(input=turn, stream=True, **fields)
    assert last.response.output_text == expected.text
    assert last.response.usage.input_tokens_details.cached_tokens == num_tokens - 1

    again = {**fields, "instructions": None}  # SGLang has stored them
    following = clients.openai.responses.create(
        input="And where?", previous_response_id=response.id, **again
    )
    assert cached(following) >= response.usage.total_tokens - 2

    for documents in ([FIRST, SECOND], [SECOND, FIRST]):
        extra = {"documents": documents, "chunk_context": "none"}
        placed = clients.openai.responses.create(input="Who?", extra_body=extra, **fields)
    assert placed.usage.prompt_tokens - cached(placed) < 20
    following = clients.openai.responses.create(
        input="And where?", previous_response_id=placed.id, **again
    )
    assert following.usage.prompt_tokens > placed.usage.prompt_tokens  # the documents are there
