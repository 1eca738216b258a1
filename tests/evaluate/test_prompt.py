"""Prompts: equal ids in all modes, whatever the template."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from sglang_lazy.evaluate.dataset import Document
from sglang_lazy.evaluate.prompt import PromptWriter, Template, chat_template, file_template

DOCUMENTS = (Document("Ida built it.", "Varn"), Document("Nils saw it.\n{question} {text}"))


@pytest.fixture(scope="module")
def tokenizer(real_model_dir: Path) -> Any:
    return AutoTokenizer.from_pretrained(real_model_dir)


def text_of(writer: PromptWriter, ids: list[int]) -> str:
    return writer.tokenizer.decode(ids)


def test_chat_prompt(tokenizer: Any) -> None:
    writer = PromptWriter(chat_template(tokenizer), tokenizer)
    prompt = writer.prompt(DOCUMENTS, "Who {documents}?")
    message = (
        "Answer the question from these notes."
        "\n\nVarn\nIda built it."
        "\n\nNils saw it.\n{question} {text}"
        "\n\nQuestion: Who {documents}?"
    )
    conversation = [{"role": "user", "content": message}]
    rendered = tokenizer.apply_chat_template(
        conversation, tokenize=False, add_generation_prompt=True
    )
    assert text_of(writer, prompt) == rendered
    assert prompt.count(tokenizer.bos_token_id) == rendered.count(tokenizer.bos_token)
    spans = [text_of(writer, prompt[start:end]) for start, end in prompt.document_spans]
    assert spans == ["\n\nVarn\nIda built it.", "\n\nNils saw it.\n{question} {text}"]


def test_document_ids_do_not_depend_on_neighbours(tokenizer: Any) -> None:
    writer = PromptWriter(chat_template(tokenizer), tokenizer)

    def ids(documents: tuple[Document, ...]) -> list[list[int]]:
        prompt = writer.prompt(documents, "Who?")
        return [prompt[start:end] for start, end in prompt.document_spans]

    assert ids(DOCUMENTS) == ids(DOCUMENTS[::-1])[::-1]


def test_file_template(tokenizer: Any, tmp_path: Path) -> None:
    path = tmp_path / "template.txt"
    path.write_text("{x} Q: {question}\n{documents}\nA:\n")
    writer = PromptWriter(file_template(path, " [{text}]"), tokenizer)
    prompt = writer.prompt(DOCUMENTS[:1], "Who?")
    assert text_of(writer, prompt) == "{x} Q: Who?\n [Ida built it.]\nA:"
    assert text_of(writer, writer.answer("Ida")) == " Ida"  # "A:" needs a space


def test_answer_follows_white_space_as_it_is(tokenizer: Any) -> None:
    writer = PromptWriter(chat_template(tokenizer), tokenizer)
    assert text_of(writer, writer.answer("Ida")) == "Ida"


def test_no_documents_joins_the_text(tokenizer: Any) -> None:
    """A prompt without documents is tokenised as one text."""
    writer = PromptWriter(Template("Read.{documents}\nQ: {question}"), tokenizer)
    prompt = writer.prompt((), "Who?")
    assert list(prompt) == tokenizer("Read.\nQ: Who?")["input_ids"]
    assert prompt.document_spans == ()


def test_title_line_is_left_out_without_a_title() -> None:
    template = Template("{documents} {question}", "## {title}\n{text}\n")
    assert template.segments([Document("B.")], "Q")[0].text == "## \nB.\n"
    template = Template("{documents} {question}", "{title}\n{text}\n")
    assert template.segments([Document("B.")], "Q")[0].text == "B.\n"
    assert template.segments([Document("B.", "{text}")], "Q")[0].text == "{text}\nB.\n"


@pytest.mark.parametrize(
    "text, fault",
    [
        ("{question}", "{documents} once"),
        ("{documents} {documents} {question}", "2 times"),
        ("{documents}", "{question} once"),
        ("{question}{documents}", "ends in"),
    ],
)
def test_bad_templates(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Template(text)


def test_tokenizer_without_a_chat_template() -> None:
    with pytest.raises(ValueError, match="no chat template"):
        chat_template(object())


class BosTokenizer:
    """A stand-in that puts token 1 in front of texts, as Llama's tokenizer does."""

    chat_template = "yes"

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [1] * add_special_tokens + [ord(c) for c in text]}

    def apply_chat_template(self, conversation: list[dict[str, str]], **_: Any) -> str:
        return "\x01" + conversation[0]["content"] + "\nA: "


def test_one_bos_with_and_without_a_chat_template() -> None:
    tokenizer = BosTokenizer()
    for template in (chat_template(tokenizer), Template("Read.{documents}\n{question}")):
        for documents in (DOCUMENTS, ()):
            prompt = PromptWriter(template, tokenizer).prompt(documents, "Who?")
            assert prompt[0] == 1
            assert prompt.count(1) == 1
