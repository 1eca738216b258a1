"""The official clients, and one prompt in the words of each surface."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import anthropic
import openai

from ..engines import Completion, Server

SYSTEM = "Answer from the notes."
QUESTION = "\n\nWho sold the violin?"
FIRST = " Belka sold the violin in Lodz in 1871.\n"
SECOND = ' Goran hid the kettle in Perth; "nobody" found\nit in 1902.\n'
LENGTH = 8
SEPARATOR = "<|next|>"

Segments = list[dict[str, str]]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def document(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "document", "text": value, **more}


def user_turn(segments: Segments, system: str = SYSTEM) -> Segments:
    """What the test model's chat template makes of a system prompt and one user message."""
    head = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"
    tail = "<|im_end|>\n<|im_start|>assistant\n"
    merged = [{"text": head}, *segments, {"text": tail}]
    joined: Segments = []
    for segment in merged:
        if joined and "text" in joined[-1] and "text" in segment:
            joined[-1] = {"text": joined[-1]["text"] + segment["text"]}
        else:
            joined.append(segment)
    return joined


@dataclass(frozen=True)
class Clients:
    """A server as its users see it."""

    server: Server

    @cached_property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="none", max_retries=0)

    @cached_property
    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.server.url, api_key="none", max_retries=0)

    def segments(self, segments: Segments, **fields: Any) -> Completion:
        """The reference: `/generate`."""
        sampling = {"temperature": 0, "max_new_tokens": LENGTH}
        return Completion.of(
            self.server.generate(segments=segments, sampling_params=sampling, **fields)
        )

    def chat(self, messages: list[dict[str, Any]], extra: Any = None, **more: Any) -> Any:
        return self.openai.chat.completions.create(
            model="default",
            messages=messages,
            temperature=0,
            max_tokens=LENGTH,
            extra_body=extra,
            **more,
        )

    def ask(self, *parts: Any, **more: Any) -> Any:
        """One user message behind the system prompt."""
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": list(parts)}]
        return self.chat(messages, **more)


def reused(usage: Any) -> int:
    """``cached_tokens`` of a chat completion or completion."""
    details = usage.prompt_tokens_details
    return details.cached_tokens if details else 0
