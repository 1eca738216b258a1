"""What the fine-tuning recipe trains on is what the server computes."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from ..engines import Server

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "block_finetune"))

from data import Encoder
from dense import IGNORED, collate
from generate import examples
from model import answer_logits
from prompts import encode

pytestmark = pytest.mark.server


@pytest.mark.parametrize("mode", ["none", "sink", "full"])
def test_training_logits_are_the_servers(
    server: Server, model_dir: Path, tokenizer: Any, tolerance: float, mode: Any
) -> None:
    """Log-probabilities of taught answers: several questions at once in training, alone served."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    encoder = Encoder(tokenizer, tokenizer.bos_token_id)
    world, questions = next(examples(1, "test", 4))
    batch = collate([encoder.encode(world, questions, mode)], tokenizer.pad_token_id)
    with torch.inference_mode():
        logits, labels = answer_logits(model, batch, torch.float32)
    trained = logits.log_softmax(-1)[torch.arange(len(labels)), labels].tolist()
    taught = torch.as_tensor(batch.labels)[0] != IGNORED
    branches = torch.as_tensor(batch.branch)[0][taught].tolist()

    errors, hits = [], 0
    for number, question in enumerate(questions, start=1):
        prompt = encoder.builder.prompt([t.document for t in world.things], question.text)
        ids = encode(prompt, tokenizer)
        if question.opening:
            ids += tokenizer(question.opening, add_special_tokens=False)["input_ids"]
        target = [x for x, b in zip(labels.tolist(), branches, strict=True) if b == number]
        structure = {"document_spans": ids.document_spans, "chunk_context": mode}
        output = server.generate(
            input_ids=[*ids, *target],
            **(structure if mode != "full" else {}),
            sampling_params={"temperature": 0, "max_new_tokens": 1},
            return_logprob=True,
            logprob_start_len=len(ids) - 1,
        )
        served = output["meta_info"]["input_token_logprobs"][-len(target) :]
        assert [token for _, token, _ in served] == target
        expected = [x for x, b in zip(trained, branches, strict=True) if b == number]
        errors += [abs(s - e) for (s, _, _), e in zip(served, expected, strict=True)]
        hits += output["meta_info"].get("chunk_cache", {"hits": 0})["hits"]
        if mode != "full" and not question.opening:
            # The same prompt as text: the recipe's ids are those that a client's segments get.
            asked = server.generate(
                segments=prompt.to_json(), chunk_context=mode, sampling_params={"max_new_tokens": 1}
            )
            assert asked["meta_info"]["prompt_tokens"] == len(ids)
            assert asked["meta_info"]["chunk_cache"]["hits"] == len(world.things)
    assert max(errors) <= tolerance
    assert mode == "full" or hits >= len(world.things) * (len(questions) - 1)
