"""Settings that are refused, each by its name and in one sentence."""

from __future__ import annotations

import argparse
import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import pytest
from sglang.srt.server_args import RADIX_EVICTION_POLICY_CHOICES, ServerArgs

from sglang_lazy.cache.factory import create_prefix_cache
from sglang_lazy.compat import break_even_keys
from sglang_lazy.config import LazyConfig, config_of
from sglang_lazy.patches.server_args import add_cli_args, engine_server_args, from_cli_args
from sglang_lazy.settings import (
    _OWN_FIELDS,
    _REFUSALS,
    check_eviction_policy,
    check_given,
    check_resolved,
    forced_settings,
)
from sglang_lazy.sink import find_sink_token

REFUSED: dict[str, Any] = {
    "attention_backend": "flashmla",
    "speculative_algorithm": "EAGLE",
    "disaggregation_mode": "prefill",
    "pp_size": 2,
    "dcp_size": 2,
    "attn_cp_size": 2,
    "dllm_algorithm": "x",
    "kv_events_config": "{}",
    "schedule_policy": "dfs-weight",
    "tokenizer_worker_num": 2,
}
"""A value that is refused, for each field that is not a switch."""


def flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def sentence(error: pytest.ExceptionInfo[ValueError]) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 200 and not re.search(r"\. [A-Z]", text)
    return text


@pytest.mark.parametrize("field", [refusal.field for refusal in _REFUSALS])
def test_each_refusal_names_its_option(field: str) -> None:
    value = REFUSED.get(field, True)
    for check in (check_given, lambda settings: check_resolved(SimpleNamespace(**settings))):
        with pytest.raises(ValueError, match=rf"does not support {flag(field)}\b") as error:
            check({field: value})
        assert sentence(error).count(flag(field)) == 1


@pytest.mark.parametrize("field", _OWN_FIELDS)
def test_settings_that_the_lazy_path_makes_itself(field: str) -> None:
    with pytest.raises(ValueError, match=rf"does not support {flag(field)} 7: leave the option"):
        check_given({field: 7})


def test_every_refused_field_exists() -> None:
    """A renamed field would never be refused."""
    known = {field.name for field in dataclasses.fields(ServerArgs)}
    checked = {refusal.field for refusal in _REFUSALS} | set(_OWN_FIELDS) | set(forced_settings())
    assert checked <= known


def test_defaults_are_served() -> None:
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(ServerArgs)
        if field.default is not dataclasses.MISSING
    }
    check_given(defaults)
    check_resolved(SimpleNamespace(**{**defaults, **forced_settings()}))


@pytest.mark.parametrize("name", ["SGLANG_RUST_SERVER", "SGLANG_RADIX_FORCE_MISS"])
@pytest.mark.parametrize("value", ["1", "true", "True", "yes"])
def test_refused_environment(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=name) as error:
        check_given({})
    sentence(error)


def test_environment_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_RUST_SERVER", "0")
    check_given({})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"chunk_cache": "on"}, "chunk_cache must be one of off, lazy; got 'on'"),
        ({"chunk_context": "bos"}, "chunk_context must be one of none, sink, preamble; got 'bos'"),
        ({"chunk_link_tokens": -1}, "chunk_link_tokens must be an integer from 0 to 256; got -1"),
        ({"chunk_link_tokens": "4"}, "chunk_link_tokens must be an integer from 0 to 256; got '4'"),
        ({"chunk_separator": "#"}, "--chunk-separator needs --chunk-cache lazy"),
        ({"chunk_cache": "lazy", "chunk_keep_separator": True}, "needs a --chunk-separator"),
        ({"chunk_cache": "lazy", "chunk_separator": ["#", ""]}, "of at least one character"),
    ],
)
def test_engine_refuses_unknown_values(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        engine_server_args(model_path="none", **settings)


@pytest.mark.parametrize("policy", ["lru", "SLRU", "priority", "gdsf"])
def test_eviction_policies_of_the_chunk_tree(policy: str) -> None:
    check_eviction_policy(policy, lazy=True)


def test_unknown_eviction_policy() -> None:
    says = r"radix_eviction_policy must be one of lru, .*, gdsf; got 'arc'"
    with pytest.raises(ValueError, match=says):
        engine_server_args(model_path="none", chunk_cache="lazy", radix_eviction_policy="arc")


def test_stock_tree_has_no_policy_of_ours() -> None:
    says = "--radix-eviction-policy gdsf needs --chunk-cache lazy"
    with pytest.raises(ValueError, match=says):
        engine_server_args(model_path="none", radix_eviction_policy="gdsf")
    args = argparse.Namespace(radix_eviction_policy="gdsf")
    with pytest.raises(ValueError, match=says):
        from_cli_args(lambda cls, args: None, ServerArgs, args)


def test_the_command_line_takes_the_policy() -> None:
    parser = argparse.ArgumentParser()
    for _ in range(2):  # one process may make several parsers
        parser = argparse.ArgumentParser()
        add_cli_args(ServerArgs.add_cli_args, parser)
    argv = ["--model-path", "none", "--radix-eviction-policy", "gdsf"]
    assert parser.parse_args(argv).radix_eviction_policy == "gdsf"
    assert RADIX_EVICTION_POLICY_CHOICES.count("gdsf") == 1


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Llama 3 8B: 2 x 4096 x 128 x (32 + 8) + 3 x 4096 x 14336, over 2 x 32 x 128.
        ({"intermediate_size": 14336}, 26624),
        ({"intermediate_size": 14336, "num_experts_per_tok": 2}, 48128),
        ({"moe_intermediate_size": 1024, "num_experts_per_tok": 8}, 17408),
        # Layer by layer; a list without layers is no size.
        ({"intermediate_size": [8192, 20480]}, 26624),
        ({"moe_intermediate_size": [1024] * 4, "num_experts_per_tok": [4, 12, 4, 12]}, 17408),
        ({"moe_intermediate_size": [], "intermediate_size": None}, 5120),
    ],
)
def test_break_even_keys(config: dict[str, Any], expected: float) -> None:
    model = SimpleNamespace(
        hf_text_config=SimpleNamespace(**config),
        num_attention_heads=32,
        get_total_num_kv_heads=lambda: 8,
        head_dim=128,
        hidden_size=4096,
    )
    assert break_even_keys(model) == expected


def test_off_without_the_flag() -> None:
    assert config_of(SimpleNamespace()) == LazyConfig("off", "sink")
    assert not LazyConfig().enabled and LazyConfig("lazy").enabled


def test_cache_backend_is_not_an_option_of_its_own() -> None:
    with pytest.raises(ValueError, match="use --chunk-cache lazy instead of --radix-cache-backend"):
        create_prefix_cache(SimpleNamespace(server_args=SimpleNamespace()))


class Template:
    """A tokenizer with a chat template and no BOS."""

    bos_token_id = None
    chat_template = "{{ messages }}"

    def apply_chat_template(self, messages: Any, tokenize: bool) -> str:
        return "<|user|>a"

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [9 if text.startswith("<|user|>") else 1, 2]}


@pytest.mark.parametrize(
    ("tokenizer", "hf_config", "token"),
    [
        (SimpleNamespace(bos_token_id=0), SimpleNamespace(bos_token_id=5), 0),
        (Template(), SimpleNamespace(bos_token_id=5), 9),
        (SimpleNamespace(bos_token_id=None), SimpleNamespace(bos_token_id=5), 5),
        (None, SimpleNamespace(bos_token_id=0), 0),
        (SimpleNamespace(bos_token_id=None, chat_template=None), SimpleNamespace(), None),
    ],
    ids=["BOS", "template", "configured", "no tokenizer", "none"],
)
def test_sink_token(tokenizer: Any, hf_config: Any, token: int | None) -> None:
    assert find_sink_token(tokenizer, hf_config) == token
