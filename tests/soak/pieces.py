"""A prompt as pieces, which clients and the judge turn into what they need."""

from collections.abc import Sequence
from typing import Any

Piece = list[Any]
"""`["text", content]` or `["document", content]`; content is text, or token ids."""


def merged(pieces: list[Piece]) -> list[Piece]:
    """Text beside text joined: what clients send as one part is tokenised as one."""
    joined: list[Piece] = []
    for kind, content in pieces:
        if joined and kind == "text" == joined[-1][0]:
            joined[-1] = [kind, joined[-1][1] + content]
        else:
            joined.append([kind, content])
    return joined


def message(role: str, content: Any) -> dict[str, Any]:
    """A chat message; `content` is pieces, or stands for an earlier answer."""
    if isinstance(content, dict):
        return {"role": role, "content": content}
    if len(content) == 1 and content[0][0] == "text":
        return {"role": role, "content": content[0][1]}
    return {"role": role, "content": [{"type": kind, "text": text} for kind, text in content]}


def chatml(turns: Sequence[Any]) -> list[Piece]:
    """What the tests' chat template makes of turns `[role, pieces or text]`."""
    pieces: list[Piece] = []
    for role, content in turns:
        inside = [["text", content]] if isinstance(content, str) else content
        pieces += [["text", f"<|im_start|>{role}\n"], *inside, ["text", "<|im_end|>\n"]]
    return merged([*pieces, ["text", "<|im_start|>assistant\n"]])
