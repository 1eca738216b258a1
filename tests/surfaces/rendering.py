"""SGLang's own chat code over a template, without a server."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat
from sglang.srt.parser.jinja_template_utils import detect_jinja_template_content_format

from sglang_lazy.config import SERVER_ARGS_ATTRIBUTE, LazyConfig
from sglang_lazy.patches.openai_chat import process_documents
from sglang_lazy.patches.openai_protocol import ChatCompletionRequest
from sglang_lazy.request import SegmentedIds

Pieces = list[tuple[str, bool]]


@dataclass(frozen=True)
class Rendering:
    """Chat requests as prompts, by one template and one tokenizer."""

    tokenizer: Any
    template: str
    config: LazyConfig = LazyConfig("lazy")

    def _serving(self) -> OpenAIServingChat:
        self.tokenizer.chat_template = self.template
        server_args = SimpleNamespace(
            tool_call_parser=None, reasoning_parser=None, default_chat_template_kwargs=None
        )
        setattr(server_args, SERVER_ARGS_ATTRIBUTE, self.config)
        hf_config = SimpleNamespace(model_type="llama", architectures=["LlamaForCausalLM"])
        model_config = SimpleNamespace(
            is_multimodal=False, hf_config=hf_config, get_default_sampling_params=dict
        )
        return OpenAIServingChat(
            SimpleNamespace(
                tokenizer=self.tokenizer, server_args=server_args, model_config=model_config
            ),
            SimpleNamespace(
                chat_template_name=None,
                jinja_template_content_format=detect_jinja_template_content_format(self.template),
                reasoning_config=None,
                force_reasoning=False,
            ),
        )

    def prompt(self, messages: Any, **fields: Any) -> Any:
        """The prompt of a request with documents or separators; None where it has neither."""
        request = ChatCompletionRequest(model="m", messages=messages, **fields)
        before = request.model_dump()
        serving = self._serving()
        result = process_documents(OpenAIServingChat._process_messages, serving, request, False)
        assert request.model_dump()["messages"] == before["messages"]
        return None if result is None else result.prompt_ids

    def pieces(self, messages: Any, **fields: Any) -> Pieces:
        """The prompt's runs of text and its documents, as text, and whether they are documents."""
        ids = self.prompt(messages, **fields)
        assert isinstance(ids, SegmentedIds)
        pieces, end = [], 0
        for start, stop in ids.document_spans:
            pieces += [(self.tokenizer.decode(ids[end:start]), False)] if end < start else []
            pieces.append((self.tokenizer.decode(ids[start:stop]), True))
            end = stop
        return [*pieces, (self.tokenizer.decode(ids[end:]), False)]

    def documents(self, messages: Any, **fields: Any) -> list[str]:
        return [text for text, is_document in self.pieces(messages, **fields) if is_document]

    def stock(self, messages: Any, **fields: Any) -> str:
        """The prompt that SGLang makes, as text."""
        request = ChatCompletionRequest(model="m", messages=messages, **fields)
        result = OpenAIServingChat._process_messages(self._serving(), request, False)
        return self.tokenizer.decode(result.prompt_ids)
