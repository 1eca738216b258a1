"""Whether a request can ever be admitted.

SGLang refuses prompts that do not fit into the pool, and clips answers so that both just
fit. Detached tokens come on top, and a request that can never be admitted blocks the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req


def clip_answer(req: Req, num_slots: int, num_detached: int) -> None:
    """Clip an answer that could fill the pool of ``num_slots`` tokens."""
    if num_detached:
        params = req.sampling_params
        room = max(_room_for_answer(req, num_slots, num_detached), 0)
        params.max_new_tokens = min(params.max_new_tokens, room)
        params.min_new_tokens = min(params.min_new_tokens, params.max_new_tokens)


def reason_to_refuse(req: Req, num_slots: int, num_detached: int) -> str | None:
    """Why a request would never fit, in a sentence; None where it does."""
    if _room_for_answer(req, num_slots, num_detached) > 0:
        return None
    return (
        f"the prompt's {len(req.origin_input_ids)} tokens, and {num_detached} more that its "
        f"documents are encoded behind, do not fit into the KV cache of {num_slots} tokens; "
        "use fewer link tokens"
    )


def _room_for_answer(req: Req, num_slots: int, num_detached: int) -> int:
    # SGLang admits what is smaller than the pool, and counts one token more.
    return num_slots - len(req.origin_input_ids) - num_detached - 2
