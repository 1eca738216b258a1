"""What one scheduler says of its cache: the body of ``GET /chunk_cache``."""

from __future__ import annotations

import secrets
import time
from collections.abc import Hashable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from sglang_lazy.cache.context import Renewed
from sglang_lazy.observe.resident import ResidentDocument

if TYPE_CHECKING:
    from sglang_lazy.cache.prefix_cache import LazyPrefixCache

_SECRET = secrets.token_bytes(16)

MAX_LISTED = 100
"""Documents that a summary lists at most: each one's tokens are hashed once."""


def summarize(cache: LazyPrefixCache, limit: int, dp_rank: int) -> dict[str, Any]:
    """Plain data, without any content of documents.

    Args:
        cache: the scheduler's cache.
        limit: how many of the hottest documents to list, at most ``MAX_LISTED``.
        dp_rank: the scheduler's rank in data parallelism; 0 without.
    """
    allocator = cache.token_to_kv_pool_allocator
    lookups, resident = cache.statistics.lookups, cache.statistics.resident
    now = time.monotonic()
    return {
        "dp_rank": dp_rank,
        "eviction_policy": cache.eviction_policy,
        "tokens": {
            "capacity": allocator.size,
            "available": allocator.available_size(),
            "evictable": cache.evictable_size(),
            "protected": cache.protected_size(),
            "documents": resident.num_tokens,
        },
        "resident_documents": len(resident),
        "evicted": {
            "documents": resident.evicted_documents,
            "tokens": resident.evicted_tokens,
        },
        "lookups": {
            "documents": dict(lookups.documents),
            "tokens": dict(lookups.tokens),
        },
        "hottest": [
            _describe(document, now) for document in resident.hottest(min(limit, MAX_LISTED))
        ],
    }


def _describe(document: ResidentDocument, now: float) -> dict[str, Any]:
    return {
        "hash": document.digest,
        "tokens": document.num_tokens,
        "hits": document.hits,
        "age_seconds": round(now - document.created, 3),
        "idle_seconds": round(now - document.last_used, 3),
        "chunk_context": document.chunk_context,
        "namespace": _fingerprint(document.namespace),
    }


def _fingerprint(namespace: Hashable) -> str | None:
    """Tells tenants apart within one process and says nothing of them; None for no tenant."""
    if isinstance(namespace, Renewed):
        namespace = namespace.tenant
    if namespace is None:
        return None
    return blake2b(repr(namespace).encode(), digest_size=4, key=_SECRET).hexdigest()
