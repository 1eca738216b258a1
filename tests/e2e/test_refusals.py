"""Settings that the lazy path cannot serve are refused at start-up, in one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..engines import SMALL_FP32_CPU, ServerSlot, command_line

pytestmark = pytest.mark.server

UNSUPPORTED = {
    "page_size": 16,
    "disable_radix_cache": True,
    "speculative_algorithm": "NGRAM",
    "disaggregation_mode": "prefill",
    "enable_hierarchical_cache": True,
    "enable_mixed_chunk": True,
    "enable_two_batch_overlap": True,
    "enable_pdmux": True,
    "enable_lmcache": True,
    "enable_deterministic_inference": True,
    "pp_size": 2,
    "attention_backend": "flex_attention",
    "prefill_attention_backend": "torch_native",
    "radix_cache_backend": "other",
    "schedule_policy": "dfs-weight",
    "allow_auto_truncate": True,
    "enable_streaming_session": True,
}
UNKNOWN_VALUES = {"chunk_cache": "fast", "chunk_context": "bos"}


@pytest.fixture(scope="module")
def refusals(model_dir: Path, server_slot: ServerSlot) -> dict[str, str | None]:
    """By setting: why an engine with it did not start."""
    server_slot.close()
    base = {"model_path": str(model_dir), **SMALL_FP32_CPU, "chunk_cache": "lazy"}
    cases = {**UNSUPPORTED, **UNKNOWN_VALUES}
    result = subprocess.run(
        [sys.executable, Path(__file__).with_name("try_settings.py")],
        input=json.dumps([{**base, name: value} for name, value in cases.items()]),
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    return dict(zip(cases, json.loads(result.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_setting(refusals: dict[str, str | None], name: str) -> None:
    error = refusals[name]
    assert error is not None, "the engine started"
    assert error.startswith("ValueError: --chunk-cache lazy does not support")
    assert "--" + name.replace("_", "-") in error
    assert "\n" not in error


@pytest.mark.parametrize("name", UNKNOWN_VALUES)
def test_unknown_value(refusals: dict[str, str | None], name: str) -> None:
    error = refusals[name]
    assert error is not None, "the engine started"
    assert error.startswith(f"ValueError: {name} must be one of")


def test_server_refuses_on_the_command_line(model_dir: Path, server_slot: ServerSlot) -> None:
    server_slot.close()
    config = {"model_path": model_dir, **SMALL_FP32_CPU, "chunk_cache": "lazy", "page_size": 16}
    command = [sys.executable, "-m", "sglang.launch_server", *command_line(config)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode != 0
    assert "--chunk-cache lazy does not support --page-size 16" in result.stderr
