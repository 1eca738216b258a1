"""Ask about notes with the official `openai` client.

Each note is a content part of type `document`. The client's types do not know that type,
but it sends dicts as they are. The notes of each question are ranked anew, so a note is
hardly ever at the same place twice; the server computes it once all the same.
"""

from typing import Any

from openai import OpenAI
from questions import MAX_TOKENS, QUESTIONS, SYSTEM, base_url, best_notes, read_notes, report


def main() -> None:
    client = OpenAI(base_url=f"{base_url(__doc__)}/v1", api_key="none")
    notes = read_notes()
    for question in QUESTIONS:
        best = best_notes(question, notes)
        parts: list[Any] = [
            *({"type": "document", "title": note.title, "text": note.text} for note in best),
            {"type": "text", "text": question},
        ]
        completion = client.chat.completions.create(
            model="default",
            messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": parts}],
            temperature=0,
            max_tokens=MAX_TOKENS,
        )
        answer, usage = completion.choices[0].message.content or "", completion.usage
        assert usage
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        report(question, answer, [note.name for note in best], usage.prompt_tokens, cached)


if __name__ == "__main__":
    main()
