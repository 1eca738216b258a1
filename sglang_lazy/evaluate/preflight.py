"""Whether a server can serve a mode, before a thousand questions are asked.

FastAPI drops request fields that it does not know. A server without the plugin, or with one
that has no link tokens, would therefore answer in another mode than the one asked for.
"""

from __future__ import annotations

from dataclasses import replace

from sglang_lazy.evaluate.client import Client, RequestRefused
from sglang_lazy.evaluate.dataset import Document, Example
from sglang_lazy.evaluate.measure import Examiner
from sglang_lazy.evaluate.modes import Mode, parse_mode

_EXAMPLE = Example(
    question="Who sold the violin?",
    documents=(Document("Belka sold the violin."), Document("Arvid hid the kettle.")),
    answers=("Belka",),
)
_IMPOSSIBLE = -1  # as a number of link tokens


async def knows_link_tokens(client: Client) -> bool:
    """Whether the field ``chunk_link_tokens`` means anything: an impossible value is refused."""
    fields = {
        "input_ids": [1, 2, 3],
        "document_spans": [[1, 2]],
        "chunk_context": "none",
        "sampling_params": {"max_new_tokens": 1},
    }
    try:
        await client.generate(fields)
    except RequestRefused:
        return False  # no documents here, so nothing can be told from the next request
    try:
        await client.generate({**fields, "chunk_link_tokens": _IMPOSSIBLE})
    except RequestRefused as e:
        return "unexpected keyword" not in str(e)
    return False


async def refusal(examiner: Examiner, mode: Mode) -> str | None:
    """Why a mode cannot be measured; None if it can.

    Raises:
        ServerUnreachable: nobody answers.
    """
    if mode.link_tokens and not examiner.knows_link_tokens:
        plain = parse_mode(mode.chunk_context or "none")
        return await refusal(examiner, plain) or (
            "the server does not know the request field chunk_link_tokens"
        )
    short = replace(examiner.settings, max_new_tokens=1, reorder=False, top_logprobs=1)
    try:
        await replace(examiner, settings=short).measure(_EXAMPLE, mode)
    except (RequestRefused, ValueError) as e:
        return str(e)
    return None
