"""Plain text with separators of the operator's choice.

What stands between two separators is a document. What stands before the first and after
the last is text.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sglang_lazy.request.segments import TextSegment


def split_text(text: str, separators: tuple[str, ...], keep: bool) -> list[TextSegment] | None:
    """Split a plain text.

    Args:
        text: a prompt or the text of a message.
        separators: strings of which each one separates; where one begins another, the
            longer one is meant.
        keep: whether a separator stays, at the head of what follows it.

    Returns:
        Segments without empty ones; None where the text has no separator.
    """
    if not separators:
        return None
    pieces = _pattern(separators).split(text)
    if len(pieces) == 1:
        return None
    heads = ["", *(pieces[1::2] if keep else [""] * (len(pieces) // 2))]
    texts = pieces[::2]
    segments: list[TextSegment] = []
    run: list[str] = []  # text since the last document; joined once, as long as it may be

    def end_run() -> None:
        if joined := "".join(run):
            segments.append(TextSegment(joined, False))
        run.clear()

    for i, (head, piece) in enumerate(zip(heads, texts, strict=True)):
        if 0 < i < len(texts) - 1 and piece:
            end_run()
            segments.append(TextSegment(head + piece, True))
        else:
            run += (head, piece)
    end_run()
    return segments


@lru_cache(maxsize=8)
def _pattern(separators: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(separators, key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")
