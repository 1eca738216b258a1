"""Servers and the tolerance of the end-to-end tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..engines import Completion, Server, ServerSlot
from ..oracle import Mode, Oracle
from .adapters import Adapter, make_adapter
from .clients import SEPARATOR, Clients
from .prompts import Prompt, Writer, load_tokenizer
from .subject import Subject, largest_error, scored

FP32_NOISE = 2e-4  # logprobs of order 10, sums over thousands of terms

# Starting a server is slow, so modules that ask the same one run in a row.
ORDER = (
    "test_stock_equality",
    "test_clients_off",
    "test_requests",
    "test_bad_input",
    "test_evaluate",
    "test_frontend",
    "test_link_tokens",
    "test_openai_client",
    "test_anthropic_client",
    "test_separators",
    "test_clients_bad_input",
    "test_lora",
    "test_isolation",
    "test_features",
    "test_document_reuse",
    "test_chunked_prefill",
    "test_tiny_chunks",
    "test_small_pool",
    "test_priority",
    "test_weights",
    "test_observability",
    "test_block_finetune",
    "test_engine",
    "test_evaluate_engine",
    "test_collisions",
    "test_refusals",
    "test_real_model",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda i: ORDER.index(i.path.stem) if i.path.parent == here else -1)


@pytest.fixture(scope="session")
def tokenizer(model_dir: Path) -> Any:
    return load_tokenizer(model_dir)


@pytest.fixture(scope="session")
def writer(tokenizer: Any) -> Writer:
    return Writer(tokenizer)


@pytest.fixture(scope="session")
def tolerance(server_slot: ServerSlot, oracle: Oracle, writer: Writer) -> float:
    """Twice the error of stock SGLang on prompts without documents, or fp32 noise."""
    server = server_slot.get()
    error = 0.0
    for seed, length in enumerate((12, 150, 600)):
        prompt = Prompt.of(writer.story(seed, length))
        completion = Completion.of(server.generate(**prompt.request(), **scored()))
        scored_prompt = prompt.then(completion.token_ids[:-1])
        rows = oracle.logprobs(scored_prompt.segments, start=len(prompt) - 1)
        error = max(error, largest_error(rows, completion))
    assert error < 0.01, "stock SGLang itself is far from the oracle"
    return max(2 * error, FP32_NOISE)


@pytest.fixture
def make_subject(
    server_slot: ServerSlot, oracle: Oracle, tokenizer: Any, tolerance: float
) -> Callable[..., Subject]:
    """Makes a subject whose server runs in a mode, with these further arguments."""

    def make(mode: Mode, **config: Any) -> Subject:
        if mode != "sink":  # the default
            config["chunk_context"] = mode
        server = server_slot.get(chunk_cache="lazy", **config)
        return Subject(server, oracle, tokenizer.bos_token_id, tolerance, mode)

    return make


@pytest.fixture(scope="session", params=["sink", "none", "preamble"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Session-scoped, so that pytest runs all tests of one mode together."""
    return request.param


@pytest.fixture
def subject(make_subject: Callable[..., Subject], mode: Mode) -> Subject:
    """A server of the test's mode, its cache empty."""
    return make_subject(mode)


@pytest.fixture
def server(server_slot: ServerSlot, tolerance: float) -> Server:
    """A server with the lazy cache in its default mode, its cache empty."""
    return server_slot.get(chunk_cache="lazy")


@pytest.fixture(scope="session")
def adapters(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Adapter]:
    """Adapters "a" and "b", of different rank."""
    path = tmp_path_factory.mktemp("adapters")
    made = [make_adapter(model_dir, path / name, rank) for name, rank in (("a", 4), ("b", 8))]
    return {adapter.name: adapter for adapter in made}


@pytest.fixture
def tenants(server_slot: ServerSlot, adapters: dict[str, Adapter], tolerance: float) -> Server:
    """A server of several tenants, its cache empty: adapters, and small chunks.

    It also serves what needs a setting of its own.
    """
    return server_slot.get(
        chunk_cache="lazy",
        served_model_name="base",
        lora_paths=[f"{name}={adapter.path}" for name, adapter in adapters.items()],
        max_loras_per_batch=3,
        max_lora_rank=8,
        chunked_prefill_size=256,
        enable_custom_logit_processor=True,
        constrained_json_disable_any_whitespace=True,
    )


@pytest.fixture
def clients(server_slot: ServerSlot) -> Clients:
    """A server with the lazy cache and a separator, its cache empty."""
    return Clients(server_slot.get(chunk_cache="lazy", chunk_separator=SEPARATOR))
