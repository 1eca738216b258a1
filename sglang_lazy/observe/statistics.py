"""What the cache tells of itself: counts of look-ups, and what the tree holds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sglang_lazy.observe.lookups import LookupCounts
from sglang_lazy.observe.resident import ResidentDocument, ResidentDocuments

if TYPE_CHECKING:
    from sglang_lazy.cache.layout import PromptLayout
    from sglang_lazy.cache.prompt import DocumentPrompt
    from sglang_lazy.observe.metrics import ChunkCacheMetrics


class DocumentStatistics:
    """Statistics of one cache, exported where there are metrics.

    Args:
        metrics: where to export them, or None.

    Attributes:
        lookups: what admitted requests found, since the start.
        resident: the documents in the tree.
    """

    def __init__(self, metrics: ChunkCacheMetrics | None = None) -> None:
        self.lookups = LookupCounts()
        self.resident = ResidentDocuments()
        self._metrics = metrics

    def matched(self, start: float) -> None:
        """A prompt was matched, to be admitted; begun at ``start``, ``time.perf_counter()``."""
        if self._metrics is not None:
            self._metrics.observe_match(time.perf_counter() - start)

    def admitted(self, prompt: DocumentPrompt, layout: PromptLayout, nodes: Sequence[Any]) -> None:
        """A request was admitted.

        Args:
            nodes: for each segment, the tree node in which its cached head ends.
        """
        now = time.monotonic()
        found = []
        segments = zip(layout.is_document, layout.cached, layout.lengths, strict=True)
        for i, (is_document, cached, length) in enumerate(segments):
            if not is_document:
                continue
            found.append((cached, length))
            if cached == length:
                document = getattr(nodes[i], "document", None)
                if document is None or document.num_tokens < length + layout.head(i):
                    document = self._document(prompt, layout, i, nodes[i])
                document.hits += 1
                document.last_used = now
        counts = LookupCounts.of(found)
        self.lookups.add(counts)
        if self._metrics is not None:
            self._metrics.count(counts)

    def stored(
        self, prompt: DocumentPrompt, layout: PromptLayout, segment: int, length: int, node: Any
    ) -> None:
        """The tree holds a segment's first ``length`` tokens, which end in ``node``."""
        if not layout.is_document[segment]:
            return
        if length == layout.lengths[segment]:
            self._document(prompt, layout, segment, node)
        else:
            self.resident.cover(node, layout.context_length)

    def publish(self) -> None:
        """Bring the exported figures of what the tree holds up to date."""
        if self._metrics is not None:
            self._metrics.publish(self.resident)

    def _document(
        self, prompt: DocumentPrompt, layout: PromptLayout, segment: int, node: Any
    ) -> ResidentDocument:
        return self.resident.add(
            node,
            layout.head(segment) + layout.lengths[segment],
            layout.context_length,
            prompt.namespace,
            prompt.shape.chunk_context,
        )
