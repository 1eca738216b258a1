"""Tokens that documents attend to and that the prompt does not hold.

A sink token, where the prompt does not begin with it, and the head of a document as it
was encoded alone, where the prompt holds it as link tokens and the rest of the document
must be computed. They have no place in the row: the first pass that needs them computes
what the tree lacks of them, in rows behind the batch's own.

Until then their slots are filed in the tree where nobody looks for them, so that they have
an owner and the accounts balance. Right after the pass they go where they belong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from sglang_lazy.cache.chunk_tree import SegmentHit
from sglang_lazy.cache.context import Tokens
from sglang_lazy.cache.prompt import SegmentKey

if TYPE_CHECKING:
    from sglang.srt.mem_cache.radix_cache import TreeNode


class DetachedRun:
    """One such run of tokens, for one request.

    Attributes:
        key: where it is filed.
        tokens: all of its tokens.
        slots: int64, their KV slots: the tree's first, then those to compute.
        num_cached: how many of them the tree held when the request was matched.
        private: the node that holds the slots of the others until they are stored.
        is_planned: whether a pass computes them, or has.
    """

    def __init__(self, key: SegmentKey, tokens: Tokens, hit: SegmentHit) -> None:
        self.key = key
        self.tokens = tokens
        self.slots: torch.Tensor = hit.slots
        self.num_cached = hit.length
        self.private: TreeNode | None = None
        self.is_planned = False
        self._node = hit.node

    @property
    def num_missing(self) -> int:
        return len(self.tokens) - self.num_cached

    @property
    def nodes(self) -> tuple[TreeNode | None, ...]:
        """What to lock."""
        return self._node, self.private

    def fill(self, slots: torch.Tensor, private: TreeNode) -> None:
        """Take slots for the missing tokens, held by a private node."""
        self.slots = torch.cat((self.slots, slots)) if self.num_cached else slots
        self.private = private

    def take_missing(self) -> bool:
        """Whether the caller's pass must compute the missing tokens; true once.

        Passes run in the order in which they are planned, so a later pass may rely on it
        without waiting.
        """
        is_first, self.is_planned = not self.is_planned, True
        return is_first and self.num_missing > 0

    def missing_positions(self) -> np.ndarray:
        """Rotary positions of the missing tokens; int64."""
        end = len(self.key.prefix) + len(self.tokens)
        return np.arange(end - self.num_missing, end)

    def settle(self, slots: torch.Tensor, node: TreeNode) -> None:
        """Its tokens are now the tree's, in these slots."""
        self.slots, self._node, self.private = slots, node, None
