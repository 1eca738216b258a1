"""A plan's arrays on the device, moved by a single copy.

Eager passes make buffers of the plan's own size. CUDA graphs need addresses that stay:
buffers of a fixed capacity are captured once and loaded before each replay, without
waiting for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sglang_lazy.kernels.config import LaunchConfig, device_architecture
from sglang_lazy.kernels.planner import HostPlan
from sglang_lazy.kernels.units import UNIT_FIELDS

_STAGING = 2
_ALIGN = 4  # int32 elements: 16 bytes


@dataclass(frozen=True)
class Capacity:
    """Largest plan that fits.

    Attributes:
        units: work units.
        item_rows: rows of all items, each counted once per item.
        spans: key spans.
        merge_rows: rows with partial results.
        partials: partial results.
    """

    units: int
    item_rows: int
    spans: int
    merge_rows: int
    partials: int

    @classmethod
    def of(cls, plan: HostPlan) -> Capacity:
        return cls(
            units=len(plan.units),
            item_rows=len(plan.item_rows),
            spans=len(plan.span_len),
            merge_rows=len(plan.merge_rows),
            partials=plan.num_partials,
        )


class PlanBuffers:
    """The arrays of a :class:`HostPlan` on the device, under the same names.

    Attributes:
        config: the launch that the units were cut for; fixed for the buffers' life.
        counts: int32 ``[3]``: item units, all units, rows to merge.
        num_partials: partial results that a launch provides for.
        max_offset: largest |Δ| of the plan loaded last.
    """

    counts: torch.Tensor
    units: torch.Tensor
    item_rows: torch.Tensor
    item_offsets: torch.Tensor
    span_start: torch.Tensor
    span_len: torch.Tensor
    position_offsets: torch.Tensor
    merge_rows: torch.Tensor
    merge_indptr: torch.Tensor
    merge_indices: torch.Tensor

    def __init__(
        self, config: LaunchConfig, capacity: Capacity, device: torch.device | str
    ) -> None:
        self.config = config
        self.capacity = capacity
        self._grid_units: int | None = None
        self.num_partials = capacity.partials
        self.max_offset = 0
        sizes = {
            "span_start": 2 * capacity.spans,  # int64
            "counts": 3,
            "units": capacity.units * len(UNIT_FIELDS),
            "item_rows": capacity.item_rows,
            "item_offsets": capacity.item_rows,
            "span_len": capacity.spans,
            "position_offsets": capacity.spans,
            "merge_rows": capacity.merge_rows,
            "merge_indptr": capacity.merge_rows + 1,
            "merge_indices": capacity.partials,
        }
        self._slices: dict[str, slice] = {}
        start = 0
        for name, size in sizes.items():
            self._slices[name] = slice(start, start + size)
            start += -(-size // _ALIGN) * _ALIGN
        self._buffer = torch.zeros(start, dtype=torch.int32, device=device)
        for name, where in self._slices.items():
            setattr(self, name, self._buffer[where])
        self.span_start = self.span_start.view(torch.int64)
        self.units = self.units.view(-1, len(UNIT_FIELDS))
        self._is_cuda = self._buffer.is_cuda
        self._staging: list[tuple[torch.Tensor, torch.cuda.Event | None]] = []
        self._next = 0

    @classmethod
    def upload(cls, plan: HostPlan, device: torch.device | str) -> PlanBuffers:
        """Buffers for this plan alone; a launch gets one program per unit and KV head."""
        buffers = cls(plan.config, Capacity.of(plan), device)
        buffers.load(plan)
        buffers._grid_units = len(plan.units)
        return buffers

    def num_programs(self, num_kv_heads: int) -> int:
        """Programs of a launch: one per unit and KV head, or as many as run at a time."""
        if self._grid_units is not None:
            return self._grid_units * num_kv_heads
        return device_architecture(self._buffer.device)[1] * self.config.programs_per_sm

    def load(self, plan: HostPlan) -> None:
        """Copy a plan in, in stream order.

        Raises:
            ValueError: the plan exceeds the capacity or was cut for another launch.
        """
        if plan.config != self.config:
            raise ValueError(f"plan must be cut for {self.config}, got {plan.config}")
        for name, size in vars(Capacity.of(plan)).items():
            limit = getattr(self.capacity, name)
            if size > limit:
                raise ValueError(f"{name} must be at most the capacity {limit}, got {size}")
        self.max_offset = plan.max_offset
        staging, copied = self._take_staging()
        host = staging.numpy()
        arrays = {name: getattr(plan, name) for name in self._slices if name != "counts"}
        arrays["span_start"] = plan.span_start.view(np.int32)
        arrays["counts"] = np.array(
            [plan.num_items, len(plan.units), len(plan.merge_rows)], np.int32
        )
        for name, array in arrays.items():
            start = self._slices[name].start
            host[start : start + array.size] = array.reshape(-1)
        self._buffer.copy_(staging, non_blocking=True)
        if copied is not None:
            copied.record()

    def _take_staging(self) -> tuple[torch.Tensor, torch.cuda.Event | None]:
        """A host buffer whose last copy has been carried out."""
        if len(self._staging) < _STAGING:
            buffer = torch.zeros(self._buffer.shape, dtype=torch.int32, pin_memory=self._is_cuda)
            self._staging.append((buffer, torch.cuda.Event() if self._is_cuda else None))
            return self._staging[-1]
        staging, copied = self._staging[self._next]
        self._next = (self._next + 1) % _STAGING
        if copied is not None and not copied.query():
            copied.synchronize()
        return staging, copied
