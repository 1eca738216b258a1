"""The CPU platform: when it is active, and what it makes of SGLang's defaults."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.distributed import bootstrap
from sglang.srt.platforms.interface import SRTPlatform

from sglang_lazy import platform
from sglang_lazy.platform import CpuPlatform, activate


def server_args(**given: Any) -> SimpleNamespace:
    """The settings that SGLang has for a CPU host when it asks the platform."""
    defaults = {
        "attention_backend": "intel_amx",
        "dtype": "auto",
        "lora_backend": "csgmv",
        "max_total_tokens": None,
        "mem_fraction_static": None,
    }
    return SimpleNamespace(**{**defaults, **given})


@pytest.fixture
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SGLANG_USE_CPU_ENGINE", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)


@pytest.mark.usefixtures("no_accelerator")
class TestActivate:
    def test_names_a_platform_class(self) -> None:
        module, _, name = (activate() or "").partition(":")
        assert module == platform.__name__
        assert issubclass(getattr(platform, name), SRTPlatform)

    def test_leaves_accelerators_to_sglang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        assert activate() is None

    def test_leaves_sglangs_own_cpu_engine_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
        assert activate() is None

    @pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
    def test_worker_threads_do_not_spin(
        self, monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
    ) -> None:
        if given is None:
            monkeypatch.delenv("OMP_WAIT_POLICY")
        else:
            monkeypatch.setenv("OMP_WAIT_POLICY", given)
        activate()
        assert os.environ["OMP_WAIT_POLICY"] == expected


class TestDefaults:
    @pytest.mark.parametrize("chosen", [None, "intel_amx"])
    def test_attention_runs_on_pytorch(self, chosen: str | None) -> None:
        args = server_args(attention_backend=chosen)
        CpuPlatform().apply_server_args_defaults(args)
        assert args.attention_backend == "torch_native"

    def test_adapters_run_on_pytorch(self) -> None:
        args = server_args()
        CpuPlatform().apply_server_args_defaults(args)
        assert args.lora_backend == "torch_native"

    @pytest.mark.parametrize(("chosen", "expected"), [("auto", "float32"), ("half", "half")])
    def test_weights_are_float32_unless_chosen(self, chosen: str, expected: str) -> None:
        args = server_args(dtype=chosen)
        CpuPlatform().apply_server_args_defaults(args)
        assert args.dtype == expected

    def test_pool_is_bounded(self) -> None:
        args = server_args()
        CpuPlatform().apply_server_args_defaults(args)
        assert args.max_total_tokens == platform.MAX_TOTAL_TOKENS

    @pytest.mark.parametrize("given", [{"max_total_tokens": 7}, {"mem_fraction_static": 0.6}])
    def test_pool_size_given_by_the_user_stands(self, given: dict[str, Any]) -> None:
        args = server_args(**given)
        CpuPlatform().apply_server_args_defaults(args)
        assert {name: getattr(args, name) for name in given} == given
        assert args.max_total_tokens == given.get("max_total_tokens")


class TestPools:
    def test_allocator_hands_out_every_slot_but_the_padding_slot(self) -> None:
        allocator = CpuPlatform().get_paged_allocator_cls()(
            8, page_size=1, dtype=torch.float32, device="cpu", kvcache=None, need_sort=False
        )
        assert sorted(allocator.alloc(8).tolist()) == list(range(1, 9))
        assert allocator.alloc(1) is None

    def test_pages_are_refused(self) -> None:
        with pytest.raises(ValueError, match="--page-size 16 is not supported on CPU"):
            CpuPlatform().get_paged_allocator_cls()(
                8, page_size=16, dtype=torch.float32, device="cpu", kvcache=None, need_sort=False
            )

    def test_latent_attention_is_refused(self) -> None:
        with pytest.raises(NotImplementedError, match="not supported on CPU"):
            CpuPlatform().get_mla_kv_pool_cls()


def test_arm64_workers_do_not_call_absent_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(torch.ops.sgl_kernel, "init_cpu_threads_env"):
        pytest.skip("this sgl_kernel is built for CPUs")
    monkeypatch.setattr(bootstrap, "_is_cpu_arm64", True)
    CpuPlatform().init_backend()
    assert not bootstrap._is_cpu_arm64


RESOLVE_ON_AMX_HOST = """
import sys, torch
torch.cpu._is_amx_tile_supported = lambda: True
from sglang.srt.utils import common
common.is_intel_amx_backend_available = True
assert common.cpu_has_amx_support()
from sglang.srt.server_args import prepare_server_args
args = prepare_server_args(["--model-path", sys.argv[1]])
print(args.device, args.attention_backend, args.sampling_backend)
"""


@pytest.mark.skipif(torch.accelerator.is_available(), reason="SGLang takes the accelerator")
def test_sglang_resolves_its_settings_to_pytorch_even_with_amx(real_model_dir: Path) -> None:
    command = [sys.executable, "-c", RESOLVE_ON_AMX_HOST, str(real_model_dir)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["cpu", "torch_native", "pytorch"]
