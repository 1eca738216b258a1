"""What the ``ask_*.py`` examples share: the notes, the questions, and how they report."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).with_name("notes")
SYSTEM = "Answer the question from the notes, in one sentence."
QUESTIONS = (
    "Who built the lighthouse of Osmere?",
    "What is the ferry to Osmere called?",
    "When was the school of Osmere opened?",
)
NUM_NOTES = 4
"""How many of the notes each question is asked with."""
MAX_TOKENS = 32

NO_SERVER = """\
Which server? Start one,

    python -m sglang.launch_server --model-path MODEL --chunk-cache lazy

and pass its address: --base-url http://127.0.0.1:30000
Or run `make examples`: it starts a server with a small model, and asks it all of this."""


class Note(NamedTuple):
    """A file of the folder: its first line is the title."""

    name: str
    title: str
    text: str
    """The rest, with a blank line at the end: the server puts nothing between documents."""


def read_notes(folder: Path = FOLDER) -> list[Note]:
    """All notes, by name."""
    notes = []
    for path in sorted(folder.glob("*.txt")):
        title, text = path.read_text(encoding="utf-8").split("\n", 1)
        notes.append(Note(path.stem, title, text.rstrip() + "\n\n"))
    return notes


def best_notes(question: str, notes: list[Note]) -> list[Note]:
    """The notes that have most of the question's words, the best first."""
    words = re.findall(r"\w{4,}", question.lower())
    score = {note: sum(note.text.lower().count(word) for word in words) for note in notes}
    return sorted(notes, key=lambda note: -score[note])[:NUM_NOTES]


def base_url(doc: str) -> str:
    """``--base-url``, without the ``/v1`` that some clients want and others add."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--base-url", help="of the server, such as http://127.0.0.1:30000")
    if (url := parser.parse_args().base_url) is None:
        print(NO_SERVER, file=sys.stderr)
        raise SystemExit(2)
    return url.rstrip("/").removesuffix("/v1")


def report(question: str, answer: str, names: list[str], prompt: int, cached: int) -> None:
    """Print an answer, the notes it was given in their order, and what it cost in tokens."""
    print(f"{question}\n  {' '.join(answer.split())}")
    print(f"  {', '.join(names)}: {cached} of {prompt} prompt tokens came from the cache\n")
