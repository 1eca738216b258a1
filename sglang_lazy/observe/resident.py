"""Which documents the tree holds, kept on the nodes themselves.

Two things are noted on a node of the tree:

- ``document_tokens``: how many of the node's last tokens belong to documents. A
  document's tokens run from the end of its context to the node in which it ends, so
  within a node they are always its tail.
- ``document``: the :class:`ResidentDocument` that ends in this node.

Eviction takes the notes along with the node, and memory is bounded by the tree. The
totals are kept up by the three events that change them: a document is stored, a node is
split, a leaf is deleted. Everything else is read from the tree when somebody asks.
"""

from __future__ import annotations

import heapq
import time
from array import array
from collections.abc import Hashable
from hashlib import sha256
from itertools import islice
from typing import Any

MAX_RANKED = 50_000
"""Documents, latest first, that :meth:`ResidentDocuments.hottest` looks at: about 10 ms."""


class ResidentDocument:
    """A document that is in the cache to its last token.

    Attributes:
        node: tree node in which it ends.
        num_tokens: its length, without its context.
        namespace: of the prompts that share it; None for those without extra key, cache salt
            and adapter, while the model's weights are those of the start.
        chunk_context: the mode in which it was encoded.
        hits: requests that found it whole since it was encoded.
        created: when it was encoded, ``time.monotonic()``.
        last_used: when it was last hit; at first, when it was encoded.
    """

    __slots__ = (
        "_digest", "chunk_context", "created", "hits", "last_used", "namespace", "node",
        "num_tokens",
    )  # fmt: skip

    def __init__(self, node: Any, num_tokens: int, namespace: Hashable, chunk_context: str) -> None:
        self.node = node
        self.num_tokens = num_tokens
        self.namespace = namespace
        self.chunk_context = chunk_context
        self.hits = 0
        self.created = self.last_used = time.monotonic()
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """See :func:`document_digest`; computed when first asked for."""
        if self._digest is None:
            keys, node = [], self.node
            while node.parent is not None:
                keys.append(node.key.raw_token_ids())
                node = node.parent
            path = array("q")
            for token_ids in reversed(keys):
                path += token_ids
            self._digest = document_digest(path[-self.num_tokens :])
        return self._digest

    def extend(self, num_tokens: int, chunk_context: str) -> None:
        """The same tokens, cut so that more of them are the document's and fewer its context."""
        self.num_tokens = num_tokens
        self.chunk_context = chunk_context
        self._digest = None


def document_digest(token_ids: array) -> str:
    """A document's name in ``GET /chunk_cache``: its content's hash, in 32 hex digits.

    Args:
        token_ids: its token ids, ``array("q")``, without special tokens. The digest is the
            head of SHA-256 over them as little-endian 64-bit integers.
    """
    return sha256(token_ids.tobytes()).hexdigest()[:32]


def is_document_part(node: Any) -> bool:
    """Whether every token of a tree node belongs to a document."""
    return bool(getattr(node, "document_tokens", 0) == len(node.key))


class ResidentDocuments:
    """The documents of one tree.

    Attributes:
        num_tokens: tokens in the tree that belong to documents; what documents share
            counts once, and the head of a partly evicted document counts.
        evicted_documents: documents that eviction has cut or removed, ever.
        evicted_tokens: document tokens that eviction has removed, ever.
    """

    def __init__(self) -> None:
        self._documents: dict[ResidentDocument, None] = {}  # an ordered set
        self.num_tokens = 0
        self.evicted_documents = 0
        self.evicted_tokens = 0

    def __len__(self) -> int:
        """Documents that are in the cache to their last token."""
        return len(self._documents)

    def clear(self) -> None:
        """The tree was emptied; not an eviction."""
        self._documents.clear()
        self.num_tokens = 0

    def cover(self, node: Any, context_length: int) -> None:
        """Note that the path to ``node``, behind ``context_length`` tokens, is a document's."""
        path, end = [], 0
        while node.parent is not None:
            path.append(node)
            end += len(node.key)
            node = node.parent
        for node in path:
            covered = min(len(node.key), end - context_length)
            if covered <= 0:
                break
            known = getattr(node, "document_tokens", 0)
            if covered > known:
                node.document_tokens = covered
                self.num_tokens += covered - known
            end -= len(node.key)

    def add(
        self,
        node: Any,
        num_tokens: int,
        context_length: int,
        namespace: Hashable,
        chunk_context: str,
    ) -> ResidentDocument:
        """The document that ends in ``node``, noted if it is new."""
        document: ResidentDocument | None = getattr(node, "document", None)
        if document is None:
            document = ResidentDocument(node, num_tokens, namespace, chunk_context)
            node.document = document
            self._documents[document] = None
            self.cover(node, context_length)
        elif num_tokens > document.num_tokens:
            # Context and document may be cut in two ways from the same tokens.
            document.extend(num_tokens, chunk_context)
            self.cover(node, context_length)
        return document

    def split(self, head: Any, tail: Any) -> None:
        """``tail`` was cut in two: ``head``, new, stands above it."""
        covered = getattr(tail, "document_tokens", 0)
        if covered:
            tail.document_tokens = min(covered, len(tail.key))
            head.document_tokens = covered - tail.document_tokens

    def evict(self, leaf: Any) -> None:
        """``leaf`` leaves the tree."""
        covered = getattr(leaf, "document_tokens", 0)
        if not covered:
            return
        self.num_tokens -= covered
        self.evicted_tokens += covered
        document = getattr(leaf, "document", None)
        if document is not None:
            del self._documents[document]
            self.evicted_documents += 1

    def hottest(self, limit: int) -> list[ResidentDocument]:
        """Up to ``limit`` documents, most hits first, of the latest ``MAX_RANKED``."""
        latest = islice(reversed(self._documents), MAX_RANKED)
        return heapq.nlargest(limit, latest, key=lambda d: (d.hits, d.last_used))
