"""Documents of a Responses request on their way into its input, and faults on their way out."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from sglang.srt.entrypoints.openai.serving_responses import OpenAIServingResponses

from sglang_lazy.config import SERVER_ARGS_ATTRIBUTE, LazyConfig
from sglang_lazy.patches.openai_protocol import ResponsesRequest
from sglang_lazy.patches.openai_responses import create_responses
from sglang_lazy.surfaces.documents import parse_documents
from sglang_lazy.surfaces.responses import with_documents

pytestmark = pytest.mark.filterwarnings("ignore:ORJSONResponse")  # what SGLang answers with

DOCUMENTS = ["a", {"text": "b", "title": "t", "doc_id": 7}]
PARTS = [{"type": "document", "text": "a"}, {"type": "document", "text": "t\nb"}]
LAZY = LazyConfig("lazy")
IMAGE = {"type": "input_image", "image_url": "u"}


def text(value: str) -> dict[str, str]:
    return {"type": "input_text", "text": value}


@pytest.mark.parametrize(
    ("content", "rest"),
    [
        ("q", [text("\n\nq")]),
        ([text("q"), text("r")], [text("\n\nq"), text("r")]),
        ([IMAGE, text("q")], [text("\n\n"), IMAGE, text("q")]),
        ([], [text("\n\n")]),
    ],
)
def test_documents_join_the_first_user_message(content: Any, rest: list[Any]) -> None:
    system, again = {"role": "system", "content": "s"}, {"role": "user", "content": "z"}
    given = [system, {"type": "message", "role": "user", "content": content}, again]
    placed = {"type": "message", "role": "user", "content": [*PARTS, *rest]}
    assert with_documents(given, parse_documents(DOCUMENTS)) == [system, placed, again]
    assert given[1]["content"] is content
    if isinstance(content, str):
        alone = [{"role": "user", "content": [*PARTS, *rest]}]
        assert with_documents(content, parse_documents(DOCUMENTS)) == alone


def test_nowhere_to_place() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    with pytest.raises(ValueError, match="needs a user message in the same input"):
        with_documents([output], parse_documents(["a"]))


def responses(chat_template: str, config: LazyConfig = LAZY, **fields: Any) -> Any:
    """What SGLang is asked to serve: the messages that it stores, and the serving object."""
    server_args = SimpleNamespace()
    setattr(server_args, SERVER_ARGS_ATTRIBUTE, config)
    serving = object.__new__(OpenAIServingResponses)
    serving.use_harmony = False
    serving.template_manager = SimpleNamespace(chat_template_name=None)
    serving.tokenizer_manager = SimpleNamespace(
        server_args=server_args, tokenizer=SimpleNamespace(get_chat_template=lambda: chat_template)
    )

    async def original(self: Any, request: Any) -> Any:
        return self._construct_input_messages(request), self

    return asyncio.run(create_responses(original, serving, ResponsesRequest(model="m", **fields)))


def test_documents_are_stored_with_the_input() -> None:
    """What SGLang stores is what the next turn, with `previous_response_id`, begins with."""
    messages, _ = responses("{{ messages }}", input="q", documents=DOCUMENTS)
    assert messages == [{"role": "user", "content": [*PARTS, {"type": "text", "text": "\n\nq"}]}]
    item = {"type": "message", "role": "user", "content": [text("q")]}
    assert responses("{{ messages }}", input=[item], documents=DOCUMENTS)[0] == messages


def test_template_that_takes_documents_gets_them() -> None:
    messages, serving = responses("{{ documents }}", input="q", documents=DOCUMENTS)
    assert messages == [{"role": "user", "content": "q"}]
    assert serving.__dict__["_chunk_cache_carried"]["documents"] == DOCUMENTS


@pytest.mark.parametrize("config", [LAZY, LazyConfig("lazy", chunk_separators=("#",))])
def test_faults_end_where_they_end(config: LazyConfig) -> None:
    """SGLang writes an exception and its cause, None or not."""
    fields: dict[str, Any] = {} if config.chunk_separators else {"documents": ["a"]}
    _, serving = responses("{{ messages }}", config, input="q", **fields)
    assert b'"no such document"' in serving.create_error_response("no such document None").body
    refused = responses("{{ messages }}", input="q", documents=[""])
    assert refused.status_code == 400 and b'"documents[0] is an empty document"' in refused.body
