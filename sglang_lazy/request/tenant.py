"""Whose cache a request uses."""

from __future__ import annotations

import json


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
