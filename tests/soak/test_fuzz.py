"""Whatever a client sends: an answer or a 4xx that says why, no 500, no hang, nothing lost.

`FUZZ_EXAMPLES` requests of each kind are sent, the same ones each time; if it is set, others
each time (`make fuzz`).
"""

import json
import os
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from .arena import Arena
from .fuzz import ANYTHING, OURS, SURFACES, Body, spoilt

pytestmark = pytest.mark.server

IS_LONG = "FUZZ_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 100))
TIMEOUT = 60

SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,  # a server's first answers take long
    derandomize=not IS_LONG,
    database=None,
    # What fails is sent again and made small.
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)

PLAIN: dict[str, Body] = {
    "/generate": {"text": "a"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/completions": {"prompt": "a"},
    "/v1/messages": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "a"}]},
    "/v1/responses": {"input": "a"},
}
"""What is left of a request without what the plugin reads."""

DOCUMENTS = ("segments", "document_spans", "documents", "chunk_context", "chunk_link_tokens")
PROMPTS = ("text", "input_ids", "prompt", "messages", "input", "system", *OURS)


def post(url: str, path: str, body: Any) -> requests.Response:
    data = json.dumps(body).encode()  # NaN and lone surrogates too
    headers = {"content-type": "application/json"}
    with requests.post(url + path, data, headers=headers, timeout=TIMEOUT) as response:
        assert response.content is not None
        return response


def check(arena: Arena, path: str, body: Any) -> None:
    """Send it. A 500 is excused if SGLang gives it without documents, or without a prompt of
    ours: a chat without messages, for instance."""
    response = post(arena.url, path, body)
    assert not arena.server.has_died(), arena.server.log_tail()
    if response.status_code >= 500:
        rest = {k: v for k, v in body.items() if k not in PROMPTS}
        others = without_documents(body), {**PLAIN[path], **rest}
        statuses = [post(arena.url, path, other).status_code for other in others]
        said = f"{response.status_code} to {json.dumps(body)}\n{arena.server.log_tail()}"
        assert max(statuses) >= 500, said
    elif response.status_code >= 400:
        assert len(response.text) > 20, "says nothing"


def without_documents(value: Any) -> Any:
    """A request of SGLang's own with as much in it."""
    if isinstance(value, list):
        return [without_documents(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in ("document", "search_result"):
        return {"type": "text", "text": "a"}
    kept = {k: without_documents(v) for k, v in value.items() if k not in DOCUMENTS}
    if "segments" in value:
        kept["prompt" if "prompt" in value else "text"] = "a"
    return kept


@pytest.fixture(autouse=True)
def nothing_is_lost(arena: Arena) -> Any:
    yield
    assert not arena.faults_at_rest()


@pytest.mark.parametrize("surface", SURFACES)
def test_documents(arena: Arena, surface: str) -> None:
    """Requests with documents, some of them with something that does not belong there."""

    @SETTINGS
    @given(request=spoilt(SURFACES[surface]))
    def each(request: tuple[str, Body]) -> None:
        check(arena, *request)

    each()


UNSAFE = (
    # These make SGLang call other hosts, read files, or need what this server has not.
    "image_data", "video_data", "audio_data", "lora_path", "lora_id", "session_params",
    "session_id", "custom_logit_processor", "disagg_prefill_dp_rank", "data_parallel_rank",
    "routed_dp_rank", "previous_response_id", "background", "store", "http_worker_ipc",
    "input_embeds", "positional_embed_overrides",
    "input_ids", "logit_bias", "multi_item_delimiter_indices",
    # Grammars of anything take SGLang long to compile.
    "regex", "ebnf", "json_schema", "response_format", "structural_tag", "tools", "tool_choice",
    "output_config", "output_format",
    # Set to what is fast.
    "sampling_params", "n", "best_of", "stream", "max_tokens", "max_completion_tokens",
    "max_output_tokens", "min_tokens", "rid", "response_id", "request_id",
)  # fmt: skip
"""Fields of SGLang's that are not sent at random."""

FAST: dict[str, Body] = {
    "/generate": {"sampling_params": {"max_new_tokens": 1}},
    "/v1/chat/completions": {"max_tokens": 1},
    "/v1/completions": {"max_tokens": 1},
    "/v1/messages": {"max_tokens": 1},
    "/v1/messages/count_tokens": {},
    "/v1/responses": {"max_output_tokens": 2},
}


def has_documents(value: Any) -> bool:
    """Whether a document is marked anywhere in a request, if only as one that is refused."""
    if isinstance(value, list):
        return any(map(has_documents, value))
    if not isinstance(value, dict):
        return False
    if value.get("type") in ("document", "search_result") or "document" in value:
        return True
    if value.get("document_spans") or value.get("documents"):
        return True
    return any(map(has_documents, value.values()))


@pytest.mark.skipif(not IS_LONG, reason="make fuzz runs it")
@pytest.mark.parametrize("path", PLAIN)
def test_schema(arena: Arena, schema: Any, path: str) -> None:
    """A request with documents, and any fields that the server's OpenAPI description allows.

    Without documents some of these end SGLang's scheduler: a negative token id, or
    ``return_hidden_states`` of a text.
    """
    with_documents = st.one_of(*SURFACES.values()).filter(
        lambda request: request[0] == path and has_documents(request[1])
    )

    @SETTINGS
    @given(case=schema[path]["POST"].as_strategy(), request=with_documents)
    def each(case: Any, request: tuple[str, Body]) -> None:
        fields = case.body if isinstance(case.body, dict) else {}
        kept = {name: x for name, x in fields.items() if name not in (*UNSAFE, *PROMPTS)}
        ours = {name: x for name, x in request[1].items() if name in PROMPTS}
        check(arena, path, {**kept, **ours, **FAST[path]})

    each()


def test_endpoints(arena: Arena) -> None:
    """`GET /chunk_cache` and the metrics."""

    @SETTINGS
    @given(documents=st.one_of(st.integers(), st.text(), st.just("9" * 5000), ANYTHING.map(repr)))
    def each(documents: Any) -> None:
        query = {"documents": documents}
        response = requests.get(f"{arena.url}/chunk_cache", query, timeout=TIMEOUT)
        assert response.status_code in (200, 400), response.text

    each()
    post(arena.url, "/generate", {"segments": [{"document": "a"}, {"text": "b"}]})
    text = requests.get(f"{arena.url}/metrics", timeout=TIMEOUT).text
    samples = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}
    assert samples["sglang:chunk_cache_match_seconds_count"] > 0
    assert all(v >= 0 for k, v in samples.items() if k.startswith("sglang:chunk_cache"))


@pytest.fixture(scope="module")
def schema(arena: Arena) -> Any:
    return schemathesis.openapi.from_url(f"{arena.url}/openapi.json")
