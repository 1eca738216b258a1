"""How a prompt's documents are sent: full attention, or one of the engine's quality modes.

full            an ordinary prompt: every token attends to everything before it
none            documents encoded alone        (--chunk-context none)
sink            behind one constant token      (--chunk-context sink)
preamble        behind the text before them    (--chunk-context preamble)
link:K          none, and the first K tokens of each document recomputed with full attention
sink+link:K     the same on top of another context; also preamble+link:K
no-documents    the prompt without its documents: what the model knows by itself
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sglang_lazy.request import ChunkContext
from sglang_lazy.request.segments import CHUNK_CONTEXTS

FULL, NO_DOCUMENTS = "full", "no-documents"
DEFAULT_MODES = (FULL, "none", "sink", "preamble", NO_DOCUMENTS)

_LAZY = re.compile(rf"(?:({'|'.join(CHUNK_CONTEXTS)})\+)?link:(\d+)|({'|'.join(CHUNK_CONTEXTS)})")


@dataclass(frozen=True)
class Mode:
    """One column of the comparison.

    Attributes:
        name: as it is written on the command line.
        chunk_context: what documents see before themselves; None where none is marked.
        link_tokens: the request's ``chunk_link_tokens``.
    """

    name: str
    chunk_context: ChunkContext | None = None
    link_tokens: int = 0

    @property
    def marks_documents(self) -> bool:
        return self.chunk_context is not None

    @property
    def has_documents(self) -> bool:
        return self.name != NO_DOCUMENTS

    def fields(self, knows_link_tokens: bool) -> dict[str, Any]:
        """The request's fields besides its prompt.

        They are written out even where they ask for a default, so that figures do not
        depend on the options with which the server was started.
        """
        if not self.marks_documents:
            return {}
        link = {"chunk_link_tokens": self.link_tokens} if knows_link_tokens else {}
        return {"chunk_context": self.chunk_context, **link}


def parse_mode(name: str) -> Mode:
    """Read a mode's name.

    Raises:
        ValueError: there is no such mode.
    """
    if name in (FULL, NO_DOCUMENTS):
        return Mode(name)
    match = _LAZY.fullmatch(name)
    if match is None:
        raise ValueError(
            f"{name!r} is no mode; use {FULL}, {NO_DOCUMENTS}, {', '.join(CHUNK_CONTEXTS)}, "
            "link:K, sink+link:K or preamble+link:K"
        )
    context = match[1] or match[3] or "none"
    link_tokens = int(match[2] or 0)
    if match[2] and not link_tokens:
        raise ValueError(f"{name!r} recomputes no token; K must be at least 1")
    return Mode(name, context, link_tokens)  # type: ignore[arg-type]
