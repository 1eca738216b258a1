"""Losses and their gradients, replayed as one CUDA graph for each shape of a batch.

A small model's kernels take less time than their launches: without graphs a step of the 135M
model on an H200 took 0.5 s for whatever number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch


class Gradients:
    """Calls ``losses(*tensors)`` and adds the gradient of the first loss to the parameters.

    On a GPU each new tuple of shapes is captured once and replayed from then on; where a capture
    fails, and on the CPU, everything runs as it is written.

    Args:
        losses: takes tensors on ``device`` and returns scalars. It must not wait for the GPU.
        parameters: those that have gradients.
        device: where to compute.
        enabled: whether to capture at all.

    Attributes:
        flat: all gradients, float32.
    """

    def __init__(
        self,
        losses: Callable[..., tuple[torch.Tensor, ...]],
        parameters: Iterable[torch.nn.Parameter],
        device: torch.device,
        enabled: bool = True,
    ) -> None:
        self._losses = losses
        self._device = device
        self.enabled = enabled and device.type == "cuda"
        # In one tensor whose address stays, so that all graphs and the optimizer share it.
        owned = list(parameters)
        self.flat = torch.zeros(sum(p.numel() for p in owned), device=device)
        for parameter, part in zip(owned, self.flat.split([p.numel() for p in owned]), strict=True):
            parameter.grad = part.view_as(parameter)
        self._pool = torch.cuda.graph_pool_handle() if self.enabled else None
        self._captured: dict[
            tuple[torch.Size, ...],
            tuple[torch.cuda.CUDAGraph, list[torch.Tensor], tuple[torch.Tensor, ...]],
        ] = {}

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The losses, detached. They hold until the next call."""
        shapes = tuple(t.shape for t in tensors)
        if self.enabled and shapes not in self._captured:
            try:
                self._capture(shapes, tensors)
            except RuntimeError as error:
                print(f"no CUDA graphs: {error}", flush=True)
                self.enabled = False
                self._captured.clear()
                torch.cuda.empty_cache()
        if not self.enabled:
            return self._run([t.to(self._device) for t in tensors])
        graph, inputs, outputs = self._captured[shapes]
        for static, tensor in zip(inputs, tensors, strict=True):
            static.copy_(tensor)
        graph.replay()
        return outputs

    def _run(self, tensors: Iterable[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        self.flat.zero_()
        losses = self._losses(*tensors)
        losses[0].backward()
        return tuple(x.detach() for x in losses)

    def _capture(self, shapes: tuple[torch.Size, ...], tensors: Iterable[torch.Tensor]) -> None:
        inputs = [t.to(self._device) for t in tensors]
        # First without a graph: libraries allocate and choose kernels when first called.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._run(inputs)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = self._run(inputs)
        self._captured[shapes] = (graph, inputs, outputs)
