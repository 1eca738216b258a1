"""Plain prompts that separators mark documents in, with options, on `/generate` and completions."""

from types import SimpleNamespace
from typing import Any

import pytest

from sglang_lazy.config import SERVER_ARGS_ATTRIBUTE, LazyConfig
from sglang_lazy.patches.generate_request import SegmentedGenerateReqInput
from sglang_lazy.patches.openai_completions import validate_request
from sglang_lazy.patches.openai_protocol import CompletionRequest
from sglang_lazy.patches.tokenizer_manager import _split_plain_text
from sglang_lazy.request import SegmentedPrompt

SEPARATED = LazyConfig("lazy", chunk_separators=("##",))
OPTIONS: dict[str, Any] = {"chunk_context": "none", "chunk_link_tokens": 4}


def generate(text: Any, config: LazyConfig, **options: Any) -> Any:
    request = SegmentedGenerateReqInput(text=text, **options)
    _split_plain_text(request, config)
    return request.text


def completion(prompt: Any, config: LazyConfig, **fields: Any) -> Any:
    """The prompt, or what is wrong with it."""
    template_name = fields.pop("template_name", None)
    request = CompletionRequest(model="m", prompt=prompt, **fields)
    server_args = SimpleNamespace()
    setattr(server_args, SERVER_ARGS_ATTRIBUTE, config)
    serving = SimpleNamespace(
        tokenizer_manager=SimpleNamespace(server_args=server_args),
        template_manager=SimpleNamespace(completion_template_name=template_name),
    )
    fault = validate_request(lambda self, request: None, serving, request)
    return fault or generate(request.prompt, config)


@pytest.mark.parametrize("surface", [generate, completion])
def test_options_reach_marked_documents(surface: Any) -> None:
    prompt = surface("a##b##c", SEPARATED, **OPTIONS)
    assert isinstance(prompt, SegmentedPrompt) and prompt.has_documents
    assert (prompt.chunk_context, prompt.chunk_link_tokens) == ("none", 4)
    batch = surface(["a##b##c", "plain", "x##"], SEPARATED, **OPTIONS)
    assert batch == ["abc", "plain", "x"] and batch[0].chunk_link_tokens == 4
    assert [type(prompt) for prompt in batch[1:]] == [str, str]


def test_options_need_separators_or_structure() -> None:
    with pytest.raises(ValueError, match="chunk_context needs segments or document_spans"):
        generate("a##b##c", LazyConfig("lazy"), **OPTIONS)
    off = LazyConfig("off")
    with pytest.raises(ValueError, match="chunk_link_tokens needs segments or document_spans"):
        generate(["a##b##c"], off, chunk_link_tokens=1)
    assert "needs documents" in completion("a##b##c", LazyConfig("lazy"), **OPTIONS)
    assert "needs documents" in completion([1, 2], SEPARATED, **OPTIONS)
    assert "must be one of" in completion("a", SEPARATED, chunk_context="bogus")
    says = completion("a##b##c", SEPARATED, template_name="t", chunk_link_tokens=4)
    assert says == "chunk_link_tokens cannot be combined with the server's completion template"


def test_text_without_options_is_left_alone() -> None:
    text = ["a##b##c", "d"]
    assert generate(text, LazyConfig("lazy")) == text
    assert all(type(prompt) is str for prompt in generate(text, LazyConfig("lazy")))
