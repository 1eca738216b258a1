"""Data parallelism, where ``torchrun`` starts several processes; alone, nothing happens here."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


class Ranks:
    """This process among those that train together.

    Attributes:
        rank, size: which one of how many.
    """

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", 0))
        self.size = int(os.environ.get("WORLD_SIZE", 1))

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def connect(self) -> None:
        """Meet the others, on this process's GPU."""
        if self.size == 1 or dist.is_initialized():
            return
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")

    def average(self, tensor: torch.Tensor) -> None:
        """Replace a tensor by its mean over all ranks."""
        if self.size > 1:
            dist.all_reduce(tensor)
            tensor /= self.size

    def copy_from_first(self, *tensors: torch.Tensor) -> None:
        """Replace tensors by those of rank 0."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def of_first(self, value: float) -> float:
        """Rank 0's value."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared)

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.size > 1:
            dist.all_reduce(torch.zeros(1))
