"""A client that answers from a script, to test what happens around the answers.

The engine itself is asked in tests/e2e/test_evaluate.py.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_lazy.evaluate.client import ModelInfo, RequestRefused
from sglang_lazy.evaluate.dataset import Document, Example
from sglang_lazy.evaluate.measure import Examiner, Settings
from sglang_lazy.evaluate.prompt import PromptWriter, Template


class Letters:
    """A tokenizer with one token a character."""

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [ord(c) for c in text]}


def text_of(fields: Mapping[str, Any]) -> str:
    return "".join(map(chr, fields["input_ids"]))


class ScriptedClient:
    """Answers every prompt with its last document's text, and scores every token with -0.5.

    Attributes:
        asked: the fields of all requests, in their order.
        refuses: texts of prompts that are refused.
        error: raised instead of an answer, once that many requests have been answered.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.refuses: set[str] = set()
        self.error: Exception | None = None
        self.answers_before_error = 0
        self.sees_documents = True
        self.knows_link_tokens = True

    async def generate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        if self.error and len(self.asked) >= self.answers_before_error:
            raise self.error
        self.asked.append(dict(fields))
        text = text_of(fields)
        if any(part in text for part in self.refuses):
            raise RequestRefused("refused by the script")
        if self.knows_link_tokens and fields.get("chunk_link_tokens", 0) < 0:
            raise RequestRefused("chunk_link_tokens must not be negative")
        spans = fields.get("document_spans", []) if self.sees_documents else []
        documents = [text[start:end] for start, end in fields.get("document_spans", [])]
        meta: dict[str, Any] = {
            "prompt_tokens": len(text),
            "cached_tokens": 2,
            "chunk_cache": {"documents": len(spans), "hits": 1, "cached_tokens": 1},
        }
        if fields.get("return_logprob"):
            start = fields["logprob_start_len"]
            ids = fields["input_ids"][start:]
            meta["input_token_logprobs"] = [(None, ids[0], None)] + [
                (-0.5, token, None) for token in ids[1:]
            ]
            top = [(-0.5, ids[1], None), (-1.5 if spans else -1.25, 0, None)]
            meta["input_top_logprobs"] = [None] + [top] * (len(ids) - 1)
        return {"text": f" {documents[-1] if documents else 'nothing'}\n", "meta_info": meta}

    async def model_info(self) -> ModelInfo:
        return ModelInfo("scripted", "scripted", "none")

    async def close(self) -> None:
        pass


def examples(count: int, kinds: Sequence[str] = ("",)) -> list[Example]:
    """Question i has the documents "a<i>" and "b<i>", and the answer "b<i>"."""
    return [
        Example(f"q{i}?", (Document(f"a{i}"), Document(f"b{i}")), (f"b{i}",), kinds[i % len(kinds)])
        for i in range(count)
    ]


def examiner(client: ScriptedClient, **settings: Any) -> Examiner:
    template = Template("{documents}.{question} ", "{text}", adds_special_tokens=False)
    return Examiner(client, PromptWriter(template, Letters()), Settings(**settings))


def results_path(folder: Path) -> Path:
    return folder / "q.results.jsonl"
