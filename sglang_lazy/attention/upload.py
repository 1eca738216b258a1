"""From the host to where a pass runs, without waiting."""

from __future__ import annotations

import numpy as np
import torch


def upload(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Copy an array to ``device``, in stream order.

    A copy from memory that is not pinned would wait for all passes before it.
    """
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
