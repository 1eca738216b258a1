"""Whose cache a request uses."""

from __future__ import annotations

import json
from typing import Any


class TenantKey(str):
    """An ``extra_key`` as SGLang makes it of a cache salt and an extra key, by joining them.

    It remembers the two, since "ab" and "c" join to the same text as "a" and "bc".
    """

    parts: tuple[str | None, str | None]

    def __new__(
        cls, joined: str, cache_salt: str | None = None, extra_key: str | None = None
    ) -> TenantKey:
        self = super().__new__(cls, joined)
        self.parts = cache_salt or None, extra_key or None
        return self

    @classmethod
    def of(cls, cache_salt: str, extra_key: Any) -> Any:
        """The key of a request, or of each one of a batch, with a salt.

        Raises:
            ValueError: the salt is no string.
        """
        if not isinstance(cache_salt, str):
            raise ValueError(f"cache_salt must be a string; got {type(cache_salt).__name__}")
        if isinstance(extra_key, list):
            return [cls.of(cache_salt, key) for key in extra_key]
        return cls(cache_salt + (extra_key or ""), cache_salt, extra_key)

    def __reduce__(self) -> tuple[type[TenantKey], tuple[str | None, ...]]:
        return type(self), (str(self), *self.parts)


def tagged_key(key: str | None) -> str | None:
    """A text that differs for tenants that differ in cache salt or in extra key.

    Args:
        key: the ``extra_key`` of a request; one that is no :class:`TenantKey` came without a salt.
    """
    if not key:
        return None
    return json.dumps(key.parts if isinstance(key, TenantKey) else (None, key))
