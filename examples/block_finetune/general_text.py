"""Ordinary English prose that is on any machine with Python, to hold the model to what it was.

Two sources, and nothing is downloaded or committed: the language reference that ships with
CPython (``pydoc_data.topics``) and the descriptions of the installed packages. Each topic and
package belongs to one share, train or held-out, by a hash of its name.
"""

from __future__ import annotations

import re
import zlib
from importlib.metadata import distributions
from typing import Literal

Share = Literal["train", "held-out"]


def _share(name: str) -> Share:
    return "held-out" if zlib.crc32(name.lower().encode()) % 3 == 0 else "train"


def _prose(text: str) -> str:
    """The paragraphs that are prose: no code, tables, lists of links or headings."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    kept = []
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith(("    ", "\t", "|", ">", "..", "#", "-", "*", "+")):
            continue
        line = " ".join(paragraph.split())
        words = line.split()
        is_prose = len(words) >= 25 and line[-1] in ".!?" and "http" not in line
        letters = sum(c.isalpha() or c.isspace() for c in line)
        if is_prose and letters > 0.9 * len(line):
            kept.append(line)
    return "\n\n".join(kept)


def texts(share: Share) -> dict[str, str]:
    """Prose by source, in a fixed order."""
    from pydoc_data import topics

    found = {f"python:{name}": _prose(text) for name, text in topics.topics.items()}
    for distribution in distributions():
        name = distribution.metadata["Name"] or ""
        # In the headers of older packages, in the body of newer ones.
        body = distribution.metadata.get_payload() or distribution.metadata.get("Description") or ""  # type: ignore[attr-defined]
        found[f"package:{name}"] = _prose(str(body))
    return {n: found[n] for n in sorted(found) if found[n] and _share(n) == share}


def blocks(tokenizer: object, share: Share, length: int) -> list[list[int]]:
    """Token ids of the share's prose in blocks of ``length``; no block joins two sources."""
    cut = []
    for text in texts(share).values():
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]  # type: ignore[operator]
        cut += [ids[i : i + length] for i in range(0, len(ids) - length // 2, length)]
    return [b for b in cut if len(b) >= length // 2]
