"""Hooks into SGLang, in processes of their own: hooks cannot be taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

SCRIPT = """
import argparse, json, pkgutil
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt.server_args import ServerArgs
from sglang_lazy.patches import HookError, verify_hooks
from sglang_lazy.patches.registry import _around_hooks, _classes

def error_of(call):
    try:
        call()
    except (HookError, ValueError) as e:
        return f"{type(e).__name__}: {e}"

def stock(*args, **kwargs):
    return None

report = {"all": error_of(verify_hooks), "around": [*_around_hooks], "classes": [*_classes]}

parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)

def refusal(*argv):
    args = parser.parse_args(["--model-path", "none", "--chunk-cache", "lazy", *argv])
    return error_of(lambda: ServerArgs.from_cli_args(args))

report["refusals"] = [
    refusal("--page-size", "16"),
    refusal("--speculative-algorithm", "NGRAM"),
    refusal("--disable-radix-cache"),
]
report["link_tokens"] = refusal("--chunk-link-tokens", "-1")

report["broken"] = []
for target in (*_around_hooks, *_classes):
    path, name = target.rsplit(".", 1)
    owner = pkgutil.resolve_name(path)
    hooked = owner.__dict__[name]
    for change in (lambda: setattr(owner, name, stock), lambda: delattr(owner, name)):
        change()
        report["broken"].append((target, error_of(verify_hooks)))
        setattr(owner, name, hooked)
report["restored"] = error_of(verify_hooks)
print("REPORT" + json.dumps(report))
"""


ROUTES = """
import argparse
{imports}
from sglang.srt.server_args import ServerArgs

parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
argv = ["--model-path", "none", "--chunk-cache", "lazy", "--page-size", "16"]
ServerArgs.from_cli_args(parser.parse_args(argv))
"""
IMPORTS = (
    "from sglang.srt.plugins import load_plugins; load_plugins()",
    "import sglang.srt.entrypoints.http_server",
)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.split("REPORT")[-1])


def test_all_hooks_take_effect(report: dict[str, Any]) -> None:
    assert report["around"] and report["classes"]
    assert report["all"] is None and report["restored"] is None


def test_a_hook_that_does_not_take_effect_is_named(report: dict[str, Any]) -> None:
    """Every target in turn was given back to SGLang, or taken away, as a release might."""
    assert len(report["broken"]) == 2 * len(report["around"] + report["classes"])
    for target, error in report["broken"]:
        assert error == (
            f"HookError: --chunk-cache lazy cannot run on SGLang {version('sglang')}: the hook "
            f"into {target} does not take effect; start without --chunk-cache, or use an SGLang "
            "version that sglang-lazy supports"
        )


def test_nothing_registered_is_noticed() -> None:
    code = "from sglang_lazy.patches import verify_hooks; verify_hooks()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the hook into SGLang does not take effect" in result.stderr


def test_routes_made_before_plugins_are_noticed() -> None:
    """They would drop documents without a word. Those made afterwards are not complained of."""
    for imports, fault in (
        (IMPORTS, "--page-size 16"),
        (IMPORTS[::-1], "since sglang.srt.entrypoints.http_server was imported before"),
    ):
        code = ROUTES.format(imports="\n".join(imports))
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert fault in result.stderr.splitlines()[-1], result.stderr[-3000:]


def test_refusals_come_before_sglang_looks_at_the_model(report: dict[str, Any]) -> None:
    flags = ("--page-size 16", "--speculative-algorithm NGRAM", "--disable-radix-cache")
    for error, flag in zip(report["refusals"], flags, strict=True):
        assert error.startswith(f"ValueError: --chunk-cache lazy does not support {flag}:")


def test_link_tokens_are_checked_at_start(report: dict[str, Any]) -> None:
    says = "ValueError: chunk_link_tokens must be an integer from 0 to 256; got -1"
    assert report["link_tokens"] == says


@pytest.mark.slow
def test_flags_are_in_the_help() -> None:
    command = [sys.executable, "-m", "sglang.launch_server", "--help"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "--chunk-cache {off,lazy}" in result.stdout
    assert "--chunk-context {none,sink,preamble}" in result.stdout
    assert "--chunk-separator STR" in result.stdout
