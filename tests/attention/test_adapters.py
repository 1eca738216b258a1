"""Which adapter each row is computed with, as SGLang's LoRA backends for GPUs read it.

Their kernels need a GPU; what they are told, which is plain tensors, does not.
"""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.lora.backend.chunked_backend import ChunkedSgmvLoRABackend
from sglang.srt.lora.backend.triton_backend import TritonLoRABackend
from sglang.srt.lora.lora_manager import LoRAManager
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from sglang_lazy import compat

SLOTS: dict[str | None, int] = {None: 0, "a": 1, "b": 2}
RANKS = {"a": 4, "b": 8}
LENGTHS = [5, 40, 1]
ADAPTERS = ["b", None, "a"]
APPENDED = [(0, 1), (0, 3), (2, 2)]


@pytest.fixture(params=[TritonLoRABackend, ChunkedSgmvLoRABackend])
def manager(request: pytest.FixtureRequest) -> LoRAManager:
    """SGLang's, over adapters without weights, with buffers for prefill graphs."""
    made = object.__new__(LoRAManager)
    made.max_loras_per_batch = len(SLOTS)
    made.enable_dp_attention = False
    made.memory_pool = SimpleNamespace(uid_to_buffer_id=SLOTS, get_buffer_id=SLOTS.__getitem__)
    made.loras = {
        name: SimpleNamespace(config=SimpleNamespace(r=rank), scaling=2.0)
        for name, rank in RANKS.items()
    }
    made.lora_backend = request.param(
        max_loras_per_batch=len(SLOTS),
        device=torch.device("cpu"),
        server_args=SimpleNamespace(max_lora_chunk_size=16),
    )
    made.lora_backend.init_prefill_cuda_graph_batch_info(max_num_tokens=64)
    return made


def prefill() -> Any:
    """A pass of three prompts and what is appended to them."""
    return SimpleNamespace(
        forward_mode=ForwardMode.EXTEND,
        batch_size=len(LENGTHS),
        lora_ids=list(ADAPTERS),
        extend_seq_lens=torch.tensor(LENGTHS, dtype=torch.int32),
        extend_seq_lens_cpu=list(LENGTHS),
        extend_logprob_start_lens_cpu=list(LENGTHS),
        extend_num_tokens=sum(LENGTHS) + sum(count for _, count in APPENDED),
        return_logprob=False,
    )


def slots_of_rows(info: Any, num_rows: int) -> list[int]:
    """The adapter's slot of each row, of segments over rows in the order of a permutation."""
    rows = [-1] * num_rows
    order = range(num_rows) if info.permutation is None else info.permutation.tolist()
    ends = info.seg_indptr.tolist()
    for i, slot in enumerate(info.weight_indices[: info.num_segments].tolist()):
        for place in range(ends[i], ends[i + 1]):
            rows[order[place]] = slot
    return rows


def test_appended_rows(manager: LoRAManager) -> None:
    runner = SimpleNamespace(server_args=SimpleNamespace(enable_lora=True), lora_manager=manager)
    forward_batch = prefill()
    with compat.PageableMemory():
        manager.prepare_lora_batch(forward_batch)
        of_output_layer = manager.lora_backend.lm_head_batch_info
        compat.assign_adapters(runner, forward_batch, APPENDED)
    info = manager.lora_backend.batch_info
    assert not info.use_cuda_graph
    assert manager.lora_backend.lm_head_batch_info is of_output_layer
    requests = [*zip(ADAPTERS, LENGTHS, strict=True), *((ADAPTERS[i], n) for i, n in APPENDED)]
    expected = [SLOTS[adapter] for adapter, count in requests for _ in range(count)]
    assert slots_of_rows(info, len(expected)) == expected
    # The batch itself, and what later passes do, is as before.
    assert forward_batch.batch_size == len(LENGTHS) == len(forward_batch.lora_ids)
    assert manager.can_use_prefill_cuda_graph(forward_batch)
    with compat.without_lora_graphs(runner):
        assert not manager.can_use_prefill_cuda_graph(forward_batch)


def test_decode(manager: LoRAManager) -> None:
    runner = SimpleNamespace(server_args=SimpleNamespace(enable_lora=True), lora_manager=manager)
    manager.max_bs_in_cuda_graph = 8
    forward_batch = SimpleNamespace(
        forward_mode=ForwardMode.DECODE, batch_size=3, lora_ids=["b", None, "b"]
    )
    with compat.PageableMemory():
        compat.assign_adapters(runner, forward_batch, [])
    info = manager.lora_backend.batch_info
    assert not info.use_cuda_graph
    assert slots_of_rows(info, 3) == [2, 0, 2]
    assert manager.max_bs_in_cuda_graph == 8
