"""Keys of text that stands after documents (docs/design.md, "The chunk tree").

A text token's KV depends on everything before it. For text before the first
document that is an ordinary prefix, and the radix tree's path says it. After a
document the path is not enough: the same tokens mean something else behind other
segments, or behind the same tokens cut into other segments. So each run of text
after documents gets a tree of its own, named by a :class:`TextContext`.

A context hashes in O(1) by a chained 128-bit xxh3 digest, and compares by the
segments themselves, so a collision of hashes is a miss and never a wrong hit.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Hashable
from typing import NamedTuple
from weakref import WeakValueDictionary

import xxhash

Tokens = array  # array("q"): SGLang's own type for token ids


class Renewed(NamedTuple):
    """The namespace of a tenant since the model's weights have changed.

    Attributes:
        weights_version: how often they have.
        tenant: the namespace that it had before.
    """

    weights_version: int
    tenant: Hashable


class Segment:
    """The tokens of one segment and whether it is a document. Interned: compare by identity."""

    __slots__ = ("__weakref__", "digest", "is_document", "tokens")

    def __init__(self, tokens: Tokens, is_document: bool, digest: bytes) -> None:
        self.tokens = tokens
        self.is_document = is_document
        self.digest = digest

    def __len__(self) -> int:
        return len(self.tokens)


class TextContext:
    """What the tokens of a text segment may attend to before their own segment.

    Args:
        namespace: isolates tenants and adapters; any hashable, compared by value.
        chunk_context: the mode in which the documents were encoded.
        link_tokens: how many tokens of each document's head were computed as text.
        segments: every earlier segment of the prompt, in order.
        digest: chained hash of all of the above.
    """

    __slots__ = ("_hash", "chunk_context", "digest", "link_tokens", "namespace", "segments")

    def __init__(
        self,
        namespace: Hashable,
        chunk_context: str,
        link_tokens: int,
        segments: tuple[Segment, ...],
        digest: bytes,
    ) -> None:
        self.namespace = namespace
        self.chunk_context = chunk_context
        self.link_tokens = link_tokens
        self.segments = segments
        self.digest = digest
        self._hash = hash((digest, namespace, chunk_context, link_tokens))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TextContext)
            and self.digest == other.digest
            and self.namespace == other.namespace
            and self.chunk_context == other.chunk_context
            and self.link_tokens == other.link_tokens
            and len(self.segments) == len(other.segments)
            and all(a is b for a, b in zip(self.segments, other.segments, strict=True))
        )

    @property
    def num_tokens(self) -> int:
        """Tokens before the text."""
        return sum(map(len, self.segments))

    def __repr__(self) -> str:
        return f"TextContext({self.digest.hex()}, {len(self.segments)} segments)"


class ContextTable:
    """Interns segments and builds contexts, under one secret seed.

    Args:
        seed: 64-bit seed of every hash. Random per process by default, so that a
            client cannot prepare collisions (CVE-2025-25183); give the same seed
            to processes that share KV.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = secrets.randbits(64) if seed is None else seed
        self._interned: WeakValueDictionary[bytes, Segment] = WeakValueDictionary()

    def digest(self, data: bytes) -> bytes:
        return xxhash.xxh3_128_digest(data, seed=self._seed)

    def intern(self, tokens: Tokens, is_document: bool) -> Segment:
        """The one live :class:`Segment` with these tokens.

        Where another segment already holds the digest (a collision), the new one
        stays private: it equals nothing, so text behind it is a miss.
        """
        data = tokens.tobytes()
        digest = self.digest(data + (b"d" if is_document else b"t"))
        known = self._interned.get(digest)
        # Bytes compare a hundred times faster than arrays, whose elements become objects.
        if (
            known is not None
            and known.is_document == is_document
            and known.tokens.tobytes() == data
        ):
            return known
        segment = Segment(tokens, is_document, digest)
        if known is None:
            self._interned[digest] = segment
        return segment

    def context(
        self,
        namespace: Hashable,
        chunk_context: str,
        link_tokens: int,
        segments: tuple[Segment, ...],
    ) -> TextContext:
        """The context of a text segment that stands behind ``segments``."""
        # Fixed-size digests in order, so boundaries count: one document of 32
        # tokens is not two of 16.
        digest = self.digest(b"".join(s.digest for s in segments))
        return TextContext(namespace, chunk_context, link_tokens, segments, digest)
