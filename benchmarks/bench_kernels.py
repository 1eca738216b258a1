"""One layer's attention: our kernels beside FlashAttention-3 and SGLang's Triton kernels.

    python benchmarks/bench_kernels.py [--cases NAME ...] [--results DIR] [--profile]

Our answers are compared with the float32 reference first: no speed without correctness.
The cases are in kernel_cases.py; tune_kernels.py tries other launch configurations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from common import RESULTS, record
from kernel_cases import TOLERANCE, Case, Setup, cases

READ_BYTES, MULTIPLY_FLOPS = 4.58e12, 790e12  # per second; measured on an H200
FIGURES = ("kernel_extend_64q_10k", "kernel_decode_b64", "kernel_decode_b64_shared")


def print_kernels(setup: Setup, call: Callable[[int], object]) -> None:
    """Mean microseconds of each kernel of a call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for layer in range(len(setup.k)):
            call(layer)
        torch.cuda.synchronize()
    for event in profile.key_averages():
        mean = event.device_time_total / event.count
        print(f"    {mean:8.1f} us x {event.count / len(setup.k):.0f}  {event.key[:80]}")


def bench(case: Case, results: Path, commit: str | None, profile: bool) -> None:
    setup = Setup(case)
    plan = setup.plan()
    if not (error := setup.error(plan)) < TOLERANCE:
        print(f"{case.name:20} WRONG: relative error {error:.2e}; not timed")
        return
    ours = setup.time(setup.ours(plan))
    straight = setup.time(setup.ours(setup.plan(zero_offsets=True)))
    others = {}
    for name in ("fa3", "sglang"):
        try:
            others[name] = setup.time(getattr(setup, name)())
        except ImportError as error:
            print(f"{case.name}: no {name}: {error}")
    if profile:
        print_kernels(setup, setup.ours(plan))
    floor = 1e3 * max(case.distinct_bytes / READ_BYTES, case.flops / MULTIPLY_FLOPS)
    fa3 = others.get("fa3", float("nan"))
    print(
        f"{case.name:20}{ours:9.4f}{case.distinct_bytes / ours / 1e6:9.0f}"
        f"{case.flops / ours / 1e9:9.1f}{floor / ours:8.0%}{straight:10.4f}{fa3:9.4f}"
        f"{others.get('sglang', float('nan')):9.4f}{ours / fa3:8.2f}{error:10.1e}"
    )
    if "fa3" in others and f"kernel_{case.name}" in FIGURES:
        record(f"kernel_{case.name}", ours, fa3, "ms", results, commit=commit)
    if case.name == "extend_64q_10k":
        record("rotation_cost", ours, straight, "ms", results, commit=commit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="also print each kernel's time")
    parser.add_argument("--cases", nargs="*", help="names; all by default")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where figures are written")
    parser.add_argument("--commit", help="what is measured, where there is no repository")
    args = parser.parse_args()
    chosen = [c for c in cases() if not args.cases or c.name in args.cases]
    print(
        f"{'':20}{'ms':>9}{'GB/s':>9}{'TFLOP/s':>9}{'of floor':>8}"
        f"{'no offset':>10}{'FA3':>9}{'SGLang':>9}{'/ FA3':>8}{'error':>10}"
    )
    for case in chosen:
        bench(case, args.results, args.commit, args.profile)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
