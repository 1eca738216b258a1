"""Launch configurations of ``attend.py``: fixed tables, so that nothing is tuned while serving.

Each row holds for 16-bit queries and head_dim 128; ``fit`` shrinks it to the shared
memory that other head sizes and dtypes leave. Only sm_90 was measured
(benchmarks/tune_kernels.py on an H200); the other tables follow from their
shared memory and are untested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

KIB = 1024


@dataclass(frozen=True)
class LaunchConfig:
    """Tile sizes and costs of one launch.

    Attributes:
        segment_m: rows of a segment unit's query tile, tokens times GQA group.
        segment_n: keys of its tiles.
        item_m: rows of an item unit's query tile; 0 where nothing is grouped.
        item_n: keys of its tiles.
        num_warps: warps of a program.
        num_stages: tiles of K and V in flight, plus one.
        max_registers: cap per thread that lets ``programs_per_sm`` of them fit; None for no cap.
        programs_per_sm: programs that run side by side on one multiprocessor.
        unit_cost: fixed cost of a unit, in key tiles.
        segment_cost: cost of a segment unit's key tile next to an item unit's.
        min_item_keys: shortest span worth grouping; each row of an item costs a partial result.
    """

    segment_m: int
    segment_n: int = 64
    item_m: int = 0
    item_n: int = 64
    num_warps: int = 4
    num_stages: int = 3
    max_registers: int | None = None
    programs_per_sm: int = 2
    unit_cost: float = 3.0
    segment_cost: float = 1.0
    min_item_keys: int = 64


@dataclass(frozen=True)
class Architecture:
    """Configurations by the number of query rows that share keys, smallest that holds them.

    Attributes:
        shared_memory: bytes of a multiprocessor; a program's own and 1 KiB more are taken.
        has_wgmma: tiles of 64 rows and more read K and V from shared memory while multiplying.
        has_fp8: converts stored fp8 keys.
        segments: launches without items, by growing ``segment_m``.
        items: launches with items, by growing ``item_m``.
    """

    shared_memory: int
    has_wgmma: bool
    has_fp8: bool
    segments: tuple[LaunchConfig, ...]
    items: tuple[LaunchConfig, ...]


_HOPPER = Architecture(
    shared_memory=228 * KIB,
    has_wgmma=True,
    has_fp8=True,
    segments=(
        LaunchConfig(segment_m=16, max_registers=168, programs_per_sm=3),
        LaunchConfig(segment_m=64, programs_per_sm=2),
        LaunchConfig(segment_m=128, num_warps=8, programs_per_sm=1),
    ),
    items=(
        LaunchConfig(segment_m=16, item_m=64, programs_per_sm=2, segment_cost=0.5),
        LaunchConfig(segment_m=16, item_m=128, num_warps=8, programs_per_sm=1, segment_cost=0.5),
    ),
)
_AMPERE = Architecture(
    shared_memory=164 * KIB,
    has_wgmma=False,
    has_fp8=False,
    segments=(
        LaunchConfig(segment_m=16, max_registers=168, programs_per_sm=2),
        LaunchConfig(segment_m=64, num_warps=8, programs_per_sm=1),
        LaunchConfig(segment_m=128, segment_n=32, num_warps=8, programs_per_sm=1),
    ),
    items=(
        LaunchConfig(segment_m=16, item_m=64, num_warps=8, programs_per_sm=1, segment_cost=0.5),
        LaunchConfig(
            segment_m=16, item_m=128, item_n=32, num_warps=8, programs_per_sm=1, segment_cost=0.5
        ),
    ),
)
_ADA = replace(_AMPERE, shared_memory=100 * KIB, has_fp8=True)
_BLACKWELL = replace(_HOPPER, has_wgmma=False)
_ARCHITECTURES = {80: _AMPERE, 86: replace(_ADA, has_fp8=False), 89: _ADA, 90: _HOPPER}
_ARCHITECTURES |= {100: _BLACKWELL, 120: _ADA}


def architecture(capability: int) -> Architecture:
    """The table of the newest known architecture not newer than ``capability``."""
    known = [a for a in _ARCHITECTURES if a <= capability]
    if not known:
        raise ValueError(f"the kernels need compute capability 8.0 or later, got {capability}")
    return _ARCHITECTURES[max(known)]


def device_architecture(device: torch.device | str) -> tuple[Architecture, int]:
    """A device's table and its multiprocessors; sm_90's shape for the interpreter."""
    if torch.device(device).type != "cuda":
        return _HOPPER, 132
    properties = torch.cuda.get_device_properties(device)
    return architecture(10 * properties.major + properties.minor), properties.multi_processor_count


def shared_memory(
    config: LaunchConfig, head_dim: int, q_bytes: int, kv_bytes: int, has_wgmma: bool
) -> int:
    """Bytes that a program takes: K and V tiles in flight, and the query tile being rotated."""
    padded = 1 << (head_dim - 1).bit_length()

    def flavour(block_m: int, block_n: int) -> int:
        from_shared = has_wgmma and block_m >= 64
        is_converted = from_shared and kv_bytes < q_bytes
        stages = config.num_stages - (0 if from_shared and not is_converted else 1)
        element = stages * kv_bytes + (q_bytes if is_converted else 0)
        return block_n * 2 * padded * element + block_m * padded * q_bytes

    return max(
        flavour(config.segment_m, config.segment_n),
        flavour(config.item_m, config.item_n) if config.item_m else 0,
    )


def fit(
    config: LaunchConfig, table: Architecture, head_dim: int, q_bytes: int, kv_bytes: int
) -> LaunchConfig:
    """Fewer programs side by side, then fewer stages, then smaller tiles, until a program fits."""
    if head_dim > 128 and max(config.segment_m, config.item_m) > 64:
        # The accumulators of 128 rows do not fit into registers.
        config = replace(
            config, segment_m=min(config.segment_m, 64), item_m=min(config.item_m, 64), num_warps=8
        )
    limit = table.shared_memory
    sizes = (head_dim, q_bytes, kv_bytes, table.has_wgmma)
    while shared_memory(config, *sizes) > limit // config.programs_per_sm - KIB:
        if config.programs_per_sm > 1:
            config = replace(config, programs_per_sm=config.programs_per_sm - 1)
        elif config.num_stages > 2:
            config = replace(config, num_stages=config.num_stages - 1)
        elif config.segment_n > 16 or config.item_n > 16:
            config = replace(
                config,
                segment_n=max(config.segment_n // 2, 16),
                item_n=max(config.item_n // 2, 16),
            )
        else:
            raise ValueError(f"head_dim {head_dim} does not fit into {limit} bytes per program")
    return config


def choose_config(
    table: Architecture,
    *,
    rows: int,
    shared_rows: int,
    group: int,
    head_dim: int,
    q_bytes: int,
    kv_bytes: int,
) -> LaunchConfig:
    """The configuration for tiles of ``rows`` rows, or ``shared_rows`` of several requests.

    Args:
        table: of the device.
        rows: rows of the largest query segment, times ``group``.
        shared_rows: rows of the largest item, times ``group``; 0 without items.
        group: query heads per KV head; a tile holds whole groups.
        head_dim: before padding.
        q_bytes: bytes of a query element.
        kv_bytes: bytes of a stored key or value element.
    """
    least = 1 << (group - 1).bit_length()
    if shared_rows:
        ladder, size = table.items, max(shared_rows, least)
        config = next((c for c in ladder if c.item_m >= size), ladder[-1])
        config = replace(config, item_m=max(config.item_m, least))
    else:
        ladder, size = table.segments, max(rows, least)
        config = next((c for c in ladder if c.segment_m >= size), ladder[-1])
    config = replace(config, segment_m=max(config.segment_m, least))
    if q_bytes == 4:
        # float32 is multiplied without matrix units: small tiles, for tests.
        small = max(16, least)
        config = replace(
            config,
            segment_m=small,
            item_m=small if config.item_m else 0,
            segment_n=32,
            item_n=32,
            num_warps=4,
            num_stages=2,
            max_registers=None,
        )
    return fit(config, table, head_dim, q_bytes, kv_bytes)
