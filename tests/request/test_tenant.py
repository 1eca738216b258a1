"""Cache salt and extra key, told apart."""

import itertools
import pickle

import pytest

from sglang_lazy.request.tenant import TenantKey, tagged_key

TENANTS = [
    None,
    "abc",
    TenantKey("abc", "abc", None),
    TenantKey("abc", "ab", "c"),
    TenantKey("abc", "a", "bc"),
    '["ab", "c"]',
    '[null, "abc"]',
]


def test_tags_differ() -> None:
    tags = [tagged_key(tenant) for tenant in TENANTS]
    assert all(a != b for a, b in itertools.combinations(tags, 2))


def test_same_tenant_on_another_surface() -> None:
    """`/generate` has the extra key as it is, OpenAI requests beside an empty salt."""
    assert tagged_key("abc") == tagged_key(TenantKey("abc", "", "abc"))
    assert tagged_key("") is tagged_key(None) is None


def test_key_is_the_joined_text() -> None:
    """To everything but documents it is SGLang's own."""
    key = TenantKey("abc", "ab", "c")
    assert key == "abc"
    assert pickle.loads(pickle.dumps(key)).parts == ("ab", "c")


def test_of_a_batch() -> None:
    keys = TenantKey.of("a", ["b", None])
    assert keys == ["ab", "a"]
    assert [key.parts for key in keys] == [("a", "b"), ("a", None)]
    with pytest.raises(ValueError, match="cache_salt must be a string; got list"):
        TenantKey.of(["a"], None)  # type: ignore[arg-type]
