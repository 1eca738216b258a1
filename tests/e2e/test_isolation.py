"""Tenants: LoRA adapter, cache salt and extra key keep documents apart, on every surface."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import requests

from ..engines import Completion, Server
from ..oracle import Oracle
from .adapters import Adapter
from .clients import FIRST, QUESTION, SECOND, SYSTEM, user_turn
from .prompts import Prompt, Writer
from .subject import Subject, scored

pytestmark = pytest.mark.server

LENGTH = 4
SEGMENTS = user_turn([{"document": FIRST}, {"document": SECOND}, {"text": QUESTION}])
PARTS = [
    {"type": "document", "text": FIRST},
    {"type": "document", "text": SECOND},
    {"type": "text", "text": QUESTION},
]
BLOCKS = [
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": FIRST}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": SECOND}},
    {"type": "text", "text": QUESTION},
]

Tenant = Mapping[str, str]
NOBODY: Tenant = {}
TENANTS: tuple[Tenant, ...] = (
    NOBODY,
    {"cache_salt": "ab", "extra_key": "c"},
    {"cache_salt": "a", "extra_key": "bc"},
    {"cache_salt": "abc"},
    {"extra_key": "abc"},
)
ADAPTED: tuple[Tenant, ...] = ({"lora": "a"}, {"lora": "b"}, {"lora": "a", "cache_salt": "abc"})


def split(tenant: Tenant) -> tuple[str | None, dict[str, str]]:
    """The adapter, and the fields that are called alike on all surfaces."""
    return tenant.get("lora"), {k: v for k, v in tenant.items() if k != "lora"}


def post(server: Server, path: str, **fields: Any) -> Any:
    response = server.post(path, **fields)
    assert response.status_code == 200, response.text
    return response.json()


def by_generate(server: Server, tenant: Tenant) -> tuple[str, int]:
    adapter, fields = split(tenant)
    sampling = {"temperature": 0, "max_new_tokens": LENGTH}
    output = server.generate(
        segments=SEGMENTS, sampling_params=sampling, lora_path=adapter, **fields
    )
    return output["text"], output["meta_info"]["cached_tokens"]


def openai_fields(tenant: Tenant) -> dict[str, Any]:
    adapter, fields = split(tenant)
    return {"model": f"base:{adapter}" if adapter else "base", "temperature": 0, **fields}


def cached_tokens(usage: Any) -> int:
    return (usage["prompt_tokens_details"] or {}).get("cached_tokens", 0)


def by_completions(server: Server, tenant: Tenant) -> tuple[str, int]:
    answer = post(
        server,
        "/v1/completions",
        segments=SEGMENTS,
        max_tokens=LENGTH,
        **openai_fields(tenant),
    )
    return answer["choices"][0]["text"], cached_tokens(answer["usage"])


def by_chat(server: Server, tenant: Tenant) -> tuple[str, int]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PARTS}]
    answer = post(
        server,
        "/v1/chat/completions",
        messages=messages,
        max_tokens=LENGTH,
        **openai_fields(tenant),
    )
    return answer["choices"][0]["message"]["content"], cached_tokens(answer["usage"])


def by_responses(server: Server, tenant: Tenant) -> tuple[str, int]:
    answer = post(
        server,
        "/v1/responses",
        instructions=SYSTEM,
        input=[{"role": "user", "content": PARTS}],
        max_output_tokens=LENGTH + 2,  # SGLang keeps two of them
        **openai_fields(tenant),
    )
    return answer["output"][0]["content"][0]["text"], cached_tokens(answer["usage"])


def by_anthropic(server: Server, tenant: Tenant) -> tuple[str, int]:
    answer = post(
        server,
        "/v1/messages",
        system=SYSTEM,
        messages=[{"role": "user", "content": BLOCKS}],
        max_tokens=LENGTH,
        **openai_fields(tenant),
    )
    return answer["content"][0]["text"], answer["usage"].get("cache_read_input_tokens") or 0


Ask = Callable[[Server, Tenant], tuple[str, int]]
SURFACES: dict[str, Ask] = {
    "generate": by_generate,
    "completions": by_completions,
    "chat": by_chat,
    "responses": by_responses,
    "anthropic": by_anthropic,
}


@pytest.mark.parametrize("surface", SURFACES)
def test_tenants_share_nothing(tenants: Server, writer: Writer, surface: str) -> None:
    """Each tenant's first request misses altogether; its second, on `/generate`, hits.

    The second one's answer, by the same weights, is the same.
    """
    everybody = TENANTS if surface == "responses" else TENANTS + ADAPTED
    first = {str(tenant): SURFACES[surface](tenants, tenant) for tenant in everybody}
    assert {name: cached for name, (_, cached) in first.items()} == dict.fromkeys(first, 0)
    num_tokens = sum(len(writer.encode(*segment.values())) for segment in SEGMENTS)
    for tenant in everybody:
        text, cached = by_generate(tenants, tenant)
        assert (text, cached) == (first[str(tenant)][0], num_tokens - 1)


def test_batch_of_tenants(
    tenants: Server,
    adapters: dict[str, Adapter],
    oracle: Oracle,
    tokenizer: Any,
    writer: Writer,
    tolerance: float,
) -> None:
    """One document, cold, wanted by several tenants in one pass."""
    prompt = Prompt.of(writer.story(1, 9), (writer.story(2, 30),), writer.story(3, 6))
    lora_path = [None, None, "a", "a"]
    for hits in (0, 1):
        outputs = tenants.generate(
            input_ids=[prompt.input_ids] * 4,
            document_spans=[prompt.document_spans] * 4,
            extra_key=["x", "y", "x", "y"],
            lora_path=lora_path,
            **scored(),
        )
        for adapter, output in zip(lora_path, outputs, strict=True):
            completion = Completion.of(output)
            dense = adapters[adapter].oracle if adapter else oracle
            Subject(tenants, dense, tokenizer.bos_token_id, tolerance, "sink").check(
                prompt, completion
            )
            assert completion.chunk_cache["hits"] == hits


def test_adapter_id_is_no_key(tenants: Server, writer: Writer) -> None:
    """SGLang joins extra key and adapter id; a client that spells the id gets nothing."""
    adapters = requests.get(f"{tenants.url}/get_server_info", timeout=30).json()["lora_paths"]
    lora_id = next(a[0] if isinstance(a, list) else a["lora_id"] for a in adapters)
    _, cached = by_generate(tenants, {"lora": "a"})
    assert cached == 0
    assert by_generate(tenants, {"extra_key": lora_id})[1] == 0


def test_summary_names_no_tenant_and_no_text(tenants: Server) -> None:
    """`GET /chunk_cache` tells tenants apart, and shows lengths and hashes."""
    for tenant in ({"extra_key": "hidden-key"}, {"cache_salt": "hidden-salt"}, {"lora": "a"}):
        by_generate(tenants, tenant)
    response = requests.get(f"{tenants.url}/chunk_cache", timeout=30)
    (scheduler,) = response.json()["schedulers"]
    assert len({document["namespace"] for document in scheduler["hottest"]}) == 3
    for secret in ("hidden-key", "hidden-salt", "Belka", "violin", "Goran"):
        assert secret not in response.text
    assert {type(value) for document in scheduler["hottest"] for value in document.values()} <= {
        str,
        int,
        float,
        type(None),
    }


def test_salt_that_is_no_string(tenants: Server) -> None:
    requests_of: dict[str, dict[str, Any]] = {
        "/generate": {"segments": SEGMENTS},
        "/v1/chat/completions": {"model": "base", "messages": [{"role": "user", "content": PARTS}]},
        "/v1/messages": {
            "model": "base",
            "max_tokens": 1,
            "messages": [{"role": "user", "content": BLOCKS}],
        },
    }
    for path, fields in requests_of.items():
        response = tenants.post(path, **fields, cache_salt=["a"])
        assert response.status_code == 400, response.text
        assert "cache_salt must be a string" in response.text


def test_adapter_of_responses_is_refused(tenants: Server) -> None:
    """SGLang's Responses API drops it: the answer would be the base model's."""
    fields = {"model": "base:a", "input": [{"role": "user", "content": PARTS}]}
    response = tenants.post("/v1/responses", **fields)
    assert response.status_code == 400, response.text
    assert "Responses API" in response.text and "adapter" in response.text
