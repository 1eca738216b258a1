"""Try other launch configurations of the kernels, and print the best of each case.

python benchmarks/tune_kernels.py [--cases NAME ...]
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import torch
from kernel_cases import TOLERANCE, Case, Setup, cases

from sglang_lazy.kernels.config import LaunchConfig


def candidates(case: Case, base: LaunchConfig) -> Iterator[LaunchConfig]:
    """Configurations to try: rows, keys, warps, stages, programs per multiprocessor, registers."""
    if case.queries > 1:
        grid = [
            (128, 64, 8, 3, 1, None), (128, 64, 8, 4, 1, None), (128, 64, 8, 2, 1, None),
            (128, 128, 8, 2, 1, None), (64, 64, 4, 3, 2, None), (64, 64, 4, 2, 2, None),
            (64, 32, 4, 4, 2, None), (64, 128, 4, 2, 1, None),
        ]  # fmt: skip
        field_m, field_n = "segment_m", "segment_n"
    elif base.item_m:
        grid = [
            (128, 64, 8, 3, 1, None), (128, 64, 8, 2, 1, None), (128, 128, 8, 2, 1, None),
            (64, 64, 4, 3, 2, None), (64, 64, 4, 2, 2, None), (64, 64, 8, 3, 2, 128),
        ]  # fmt: skip
        field_m, field_n = "item_m", "item_n"
    else:
        grid = [
            (16, 64, 4, 3, 2, None), (16, 64, 4, 3, 3, 168), (16, 64, 4, 4, 2, None),
            (16, 64, 8, 3, 2, 128), (16, 64, 8, 4, 2, 128), (16, 64, 4, 2, 3, 168),
            (16, 128, 8, 2, 2, 128), (16, 128, 8, 3, 1, None), (16, 32, 4, 4, 4, 128),
            (16, 32, 2, 4, 4, None),
        ]  # fmt: skip
        field_m, field_n = "segment_m", "segment_n"
    for m, n, warps, stages, per_sm, registers in grid:
        yield replace(
            base,
            **{field_m: m, field_n: n},
            num_warps=warps,
            num_stages=stages,
            programs_per_sm=per_sm,
            max_registers=registers,
        )


def compile_one(case: Case, config: LaunchConfig) -> None:
    """In a process of its own: leaves the kernel in Triton's cache."""
    small = replace(case, requests=[[0], [0]][: len(case.requests)], queries=min(case.queries, 8))
    if len(case.requests[0]) == 0:
        small = replace(small, requests=[[]], own=64)
    try:
        setup = Setup(small)
        setup.ours(setup.plan(config))(0)
    except Exception as error:  # the search goes on without it
        print(f"{case.name}: {config}: {str(error)[:200]}")


def tune(setup: Setup) -> None:
    case, base = setup.case, setup.plan().config
    found = []
    for config in candidates(case, base):
        try:
            for unit_cost in (2.0, 4.0, 8.0):
                plan = setup.plan(replace(config, unit_cost=unit_cost))
                if not setup.error(plan) < TOLERANCE:
                    raise ValueError("wrong answer")
                found.append((setup.time(setup.ours(plan), 8), plan))
        except Exception as error:  # out of shared memory, say
            print(f"  {config}: {str(error)[:100]}")
    for time, plan in sorted(found, key=lambda f: f[0])[:6]:
        c = plan.config
        print(
            f"  {time:.4f} ms: segment {c.segment_m}x{c.segment_n}, item {c.item_m}x{c.item_n}, "
            f"warps {c.num_warps}, stages {c.num_stages}, registers {c.max_registers}, "
            f"{c.programs_per_sm} per SM, cost {c.unit_cost}: {len(plan.units)} units, "
            f"{plan.num_partials} partial rows"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", help="names; all by default")
    args = parser.parse_args()
    chosen = [c for c in cases() if not args.cases or c.name in args.cases]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(12, context) as pool:
        for case in chosen:
            base = Setup(replace(case, requests=case.requests[:2])).plan().config
            for config in candidates(case, base):
                pool.submit(compile_one, case, config)
    for case in chosen:
        print(case.name)
        tune(Setup(case))
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
