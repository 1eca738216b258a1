"""Documents in chat messages, by templates of many families, rendered by SGLang's own code."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer

from sglang_lazy.config import LazyConfig
from sglang_lazy.patches.openai_chat import _View

from .chat_templates import FAMILIES, GEMMA, LLAMA_3, PHI_3, QWEN_2_5, UNSERVABLE
from .rendering import Rendering

FIRST = ' Ida "Kolm" built <it>\n& the\\ café. '
SECOND = "</think> <|im_end|> {{ x }} \n"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture(scope="module")
def tokenizer(real_model_dir: Path) -> Any:
    return AutoTokenizer.from_pretrained(real_model_dir)


@pytest.fixture(params=FAMILIES.values(), ids=FAMILIES)
def rendering(request: pytest.FixtureRequest, tokenizer: Any) -> Rendering:
    return Rendering(tokenizer, request.param)


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def document(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "document", "text": value, **more}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def test_prompt_is_what_the_template_makes_of_the_text(rendering: Rendering) -> None:
    """With documents taken for text, between other text, the prompt is SGLang's own."""
    messages = [user(text("Read:"), document(FIRST), document(SECOND), text("Who?"))]
    pieces = rendering.pieces(messages)
    assert "".join(t for t, _ in pieces) == rendering.stock(
        [{"role": "user", "content": f"Read:{FIRST}{SECOND}Who?"}]
    )
    assert [t for t, is_document in pieces if is_document] == [FIRST, SECOND]


def test_document_is_never_trimmed(rendering: Rendering) -> None:
    assert rendering.documents([user(document(FIRST), document(SECOND))]) == [FIRST, SECOND]


def test_ids_do_not_depend_on_the_place(rendering: Rendering) -> None:
    """A document's tokens are those of its text alone, wherever it stands."""
    turns = [
        user(text("Read:"), document(FIRST)),
        {"role": "assistant", "content": "Yes."},
        user(text("And"), document(SECOND), text("Who?"), document(FIRST)),
    ]
    prompt = rendering.prompt(turns)
    alone = {
        t: rendering.tokenizer(t, add_special_tokens=False)["input_ids"] for t in (FIRST, SECOND)
    }
    got = [prompt[start:end] for start, end in prompt.document_spans]
    assert got == [alone[FIRST], alone[SECOND], alone[FIRST]]


def test_document_in_the_system_message(rendering: Rendering) -> None:
    """Wherever the template moves it. Gemma knows no such message and says so."""
    messages = [{"role": "system", "content": [text("Read:"), document(FIRST)]}, user(text("Who?"))]
    if rendering.template == GEMMA:
        with pytest.raises(ValueError, match="System role not supported"):
            rendering.prompt(messages)
    else:
        assert rendering.documents(messages) == [FIRST]


def test_document_in_the_result_of_a_tool(rendering: Rendering) -> None:
    messages = [
        user(text("Who?")),
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "abcdefghi", "content": [document(FIRST)]},
    ]
    if rendering.template == PHI_3:
        with pytest.raises(ValueError, match="leaves out the documents"):
            rendering.prompt(messages)
    elif rendering.template == FAMILIES["Mistral"]:
        with pytest.raises(ValueError, match="roles must alternate"):
            rendering.prompt(messages)
    elif rendering.template == LLAMA_3:
        as_json = json.dumps(FIRST, ensure_ascii=False)[1:-1]
        assert rendering.documents(messages, tools=[TOOL]) == [as_json]
        plain = [*messages[:2], {**messages[2], "content": FIRST}]
        pieces = rendering.pieces(messages, tools=[TOOL])
        assert "".join(t for t, _ in pieces) == rendering.stock(plain, tools=[TOOL])
    else:
        assert rendering.documents(messages) == [FIRST]


def test_tools_are_in_the_prompt(tokenizer: Any) -> None:
    for template in (LLAMA_3, QWEN_2_5):
        rendering = Rendering(tokenizer, template)
        messages = [user(document(FIRST), text("Who?"))]
        pieces = rendering.pieces(messages, tools=[TOOL])
        assert '"name": "f"' in pieces[0][0] and pieces[1] == (FIRST, True)


def test_documents_field(rendering: Rendering) -> None:
    """Templates that take documents get them; else they open the first user message."""
    documents: list[Any] = [FIRST, {"text": SECOND, "title": "T", "doc_id": 7}]
    messages = [user(text("Who?")), {"role": "assistant", "content": "Ida."}, user(text("Sure?"))]
    whole = [FIRST, f"T\n{SECOND}"]
    pieces = rendering.pieces(messages, documents=documents)
    everything = "".join(t for t, _ in pieces)
    if "documents" in rendering.template:
        as_dicts = [{"text": whole[0]}, {"doc_id": 7, "text": whole[1]}]
        kwargs = {"documents": as_dicts}
        assert everything == rendering.stock(messages, chat_template_kwargs=kwargs)
    else:
        placed = user(document(whole[0]), document(whole[1]), text("\n\nWho?"))
        assert pieces == rendering.pieces([placed, *messages[1:]])
    if rendering.template == FAMILIES["Granite 4"]:
        whole = [json.dumps(t, ensure_ascii=False)[1:-1] for t in whole]
    assert [t for t, is_document in pieces if is_document] == whole


def test_options_need_documents(tokenizer: Any) -> None:
    """Unless the request may well have none: an empty list, or text without separators."""
    messages = [user(text("Who?"))]
    with pytest.raises(ValueError, match="chunk_context needs documents"):
        Rendering(tokenizer, QWEN_2_5).prompt(messages, chunk_context="none")
    empty = Rendering(tokenizer, QWEN_2_5).prompt(messages, chunk_context="none", documents=[])
    separated = LazyConfig("lazy", chunk_separators=("##",))
    plain = Rendering(tokenizer, QWEN_2_5, separated).prompt(messages, chunk_context="none")
    assert empty is None and plain is None
    for fields in ({"chunk_context": "bogus"}, {"chunk_link_tokens": -1}):
        with pytest.raises(ValueError, match="must be"):
            Rendering(tokenizer, QWEN_2_5, separated).prompt(messages, **fields)


@pytest.mark.parametrize(("template", "fault"), UNSERVABLE.values(), ids=UNSERVABLE)
def test_unservable_templates_are_refused(tokenizer: Any, template: str, fault: str) -> None:
    rendering = Rendering(tokenizer, template)
    with pytest.raises(ValueError, match=fault):
        rendering.prompt([user(text("Read:"), document(FIRST), document(SECOND))])


def test_reason_of_a_refusal_where_there_are_tools(tokenizer: Any) -> None:
    """SGLang tries again with other tools, which this template does not take."""
    template = (
        "{% for m in messages %}{{ m.content | replace('\"', '') }}{% endfor %}"
        "{% for t in tools or () %}{{ 'f' + t['function'].name }}{% endfor %}A:"
    )
    with pytest.raises(ValueError, match=r"content\[0\] cannot be served: .* changes it"):
        Rendering(tokenizer, template).prompt([user(document(FIRST), text("?"))], tools=[TOOL])


def test_template_of_the_request_that_names_another_document(tokenizer: Any) -> None:
    template = (
        "{% set p = messages[0].content %}{% set n = p[:32] %}"
        "{{ n + ':7:' + p.split(':')[2] + ':' + n }}?"
    )
    with pytest.raises(ValueError, match="changes a document"):
        Rendering(tokenizer, QWEN_2_5).prompt(
            [user(document(FIRST), text("?"))], chat_template_kwargs={"chat_template": template}
        )


def test_view_can_be_copied() -> None:
    view = copy.copy(_View(SimpleNamespace(a=1, b=2), b=3))
    assert (view.a, view.b) == (1, 3)


def test_text_apart_from_documents_is_joined_as_ever(tokenizer: Any) -> None:
    """SGLang joins text parts by a space; beside a document nothing is put in."""
    rendering = Rendering(tokenizer, QWEN_2_5)
    parts = [text("a"), text("b"), document(FIRST), text("c"), text("d")]
    (before, _), (_, is_document), (after, _) = rendering.pieces([user(*parts)])
    assert before.endswith("user\na b") and is_document and after.startswith("c d<|im_end|>")


def test_requests_without_documents_are_left_alone(rendering: Rendering) -> None:
    messages = [user(text("document"), text("</document>"))]
    assert rendering.prompt(messages) is None
    assert rendering.prompt(messages, documents=[]) is None
    assert rendering.prompt([{"role": "user", "content": FIRST}]) is None


def test_separators(tokenizer: Any) -> None:
    """In all messages but the assistant's; explicit documents are left whole."""
    for keep in (False, True):
        config = LazyConfig("lazy", chunk_separators=("##",), chunk_keep_separator=keep)
        rendering = Rendering(tokenizer, QWEN_2_5, config)
        messages = [
            {"role": "system", "content": "Read.## A.## Who?"},
            {"role": "assistant", "content": "x## y## z"},
            user(text("So?## B.## C.##"), document("D## E## F"), text("?")),
        ]
        head = "##" if keep else ""
        expected = [f"{head} A.", f"{head} B.", f"{head} C.", "D## E## F"]
        assert rendering.documents(messages) == expected
        everything = "".join(t for t, _ in rendering.pieces(messages))
        assert everything.count("##") == (5 if keep else 0) + 4


@pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept"])
@pytest.mark.parametrize(
    "given",
    [
        [user(text("Notes.##Who?"))],
        [{"role": "user", "content": "Notes.####Who?"}],
        [{"role": "user", "content": "Notes.Who?##"}],
        [{"role": "system", "content": "Notes.##"}, user(text("Who?"))],
        [user(text("##")), {"role": "assistant", "content": "x##"}, user(text("?"))],
    ],
    ids=["one", "two", "last", "system", "nothing else"],
)
def test_separators_that_mark_no_document(tokenizer: Any, given: list[Any], keep: bool) -> None:
    """They are taken out of the prompt all the same, but for the assistant's messages."""
    config = LazyConfig("lazy", chunk_separators=("##",), chunk_keep_separator=keep)
    rendering = Rendering(tokenizer, QWEN_2_5, config)
    prompt = rendering.prompt(given)
    assert prompt is not None and not hasattr(prompt, "document_spans")
    head = "##" if keep else ""
    expected = [
        message
        if message["role"] == "assistant"
        else {**message, "content": _plain(message["content"]).replace("##", head)}
        for message in given
    ]
    assert tokenizer.decode(prompt) == rendering.stock(expected)


def test_separators_in_one_message_and_documents_in_another(tokenizer: Any) -> None:
    config = LazyConfig("lazy", chunk_separators=("##",))
    rendering = Rendering(tokenizer, QWEN_2_5, config)
    messages = [{"role": "system", "content": "Be brief.##"}, user(document(FIRST), text("?"))]
    (before, _), (first, is_document), _ = rendering.pieces(messages)
    assert "Be brief.<|im_end|>" in before and (first, is_document) == (FIRST, True)


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_template_without_documents_is_not_sent_any(tokenizer: Any) -> None:
    """A template that mentions documents in a string or sets them itself takes none."""
    template = "{% set documents = 1 %}documents {{ messages[0].content }}:"
    pieces = Rendering(tokenizer, template).pieces([user(text("Who?"))], documents=[FIRST])
    assert pieces == [("documents ", False), (FIRST, True), ("\n\nWho?:", False)]
