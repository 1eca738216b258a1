"""Ask about notes with the official `anthropic` client.

Each note is a `document` block with a source of type `text`, as for Anthropic's own models;
its title becomes the document's first line. `cache_control` is not needed: documents are
always cached, and found wherever they stand.
"""

from anthropic import Anthropic
from anthropic.types import DocumentBlockParam, TextBlockParam
from questions import (
    MAX_TOKENS,
    QUESTIONS,
    SYSTEM,
    Note,
    base_url,
    best_notes,
    read_notes,
    report,
)


def block(note: Note) -> DocumentBlockParam:
    return {
        "type": "document",
        "title": note.title,
        "source": {"type": "text", "media_type": "text/plain", "data": note.text},
    }


def main() -> None:
    client = Anthropic(base_url=base_url(__doc__), api_key="none")
    notes = read_notes()
    for question in QUESTIONS:
        best = best_notes(question, notes)
        content: list[DocumentBlockParam | TextBlockParam] = [
            *(block(note) for note in best),
            {"type": "text", "text": question},
        ]
        with client.messages.stream(
            model="default",
            system=SYSTEM,
            messages=[{"role": "user", "content": content}],
            max_tokens=MAX_TOKENS,
            extra_body={"temperature": 0},
        ) as stream:
            answer = "".join(stream.text_stream)
            usage = stream.get_final_message().usage
        cached = usage.cache_read_input_tokens or 0
        prompt = usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0)
        report(question, answer, [note.name for note in best], prompt, cached)


if __name__ == "__main__":
    main()
