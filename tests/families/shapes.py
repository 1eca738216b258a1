"""Tiny random models, one for each family of architectures or rotary embeddings."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCAB_SIZE = 512
MAX_POSITION = 16384
BOS = 1

TINY = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_POSITION,
    "bos_token_id": BOS,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5,
}

WEIGHT_STD = 0.2
"""Sharp attention: with a hidden size of 64, scores have a standard deviation of about 3."""

QK_NORM_GAIN = 1.8
"""The same for models that normalise queries and keys."""


@dataclass(frozen=True)
class Family:
    """A model by its configuration.

    Attributes:
        name: as docs/models.md has it.
        model_type: Hugging Face's.
        about: what is particular about its attention, or why it is refused.
        config: what differs from :data:`TINY`.
        oracle_config: what differs for Hugging Face, where SGLang reads a setting otherwise.
        architecture: SGLang's, where Hugging Face has no causal model of the type.
        settings: further settings of the engine.
    """

    name: str
    model_type: str
    about: str
    config: dict[str, Any] = field(default_factory=dict)
    oracle_config: dict[str, Any] = field(default_factory=dict)
    architecture: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write a checkpoint with random weights."""
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(self._config(), dtype=torch.float32)
        randomise(model)
        model.save_pretrained(path)

    def save_config(self, path: Path) -> None:
        """Write a checkpoint without weights."""
        config = self._config()
        config.architectures = [
            self.architecture or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[self.model_type]
        ]
        config.save_pretrained(path)

    def oracle_model(self, path: Path) -> PreTrainedModel:
        """The checkpoint in Hugging Face's implementation."""
        return AutoModelForCausalLM.from_pretrained(
            path,
            config=self._config(**self.oracle_config),
            dtype=torch.float32,
            attn_implementation="sdpa",
        )

    def _config(self, **fields: Any) -> PretrainedConfig:
        return AutoConfig.for_model(self.model_type, **{**TINY, **self.config, **fields})


def randomise(model: PreTrainedModel) -> None:
    """Weights of which none is neutral: attention is sharp, norms and biases matter."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1 and "norm" not in name:
            parameter.data = noise * WEIGHT_STD
            continue
        if name == "lm_head.bias":  # SGLang's Phi leaves it out
            continue
        parameter.data += noise * 0.1
        if any(norm in name for norm in ("q_norm", "k_norm", "q_layernorm", "k_layernorm")):
            parameter.data *= QK_NORM_GAIN


def rope(rope_type: str, rope_theta: float = 10000.0, **parameters: Any) -> dict[str, Any]:
    return {
        "rope_parameters": {"rope_type": rope_type, "rope_theta": rope_theta, **parameters},
    }


def ntk_theta(factor: float, head_dim: int, theta: float = 10000.0) -> float:
    """SGLang's base for dynamic NTK scaling, which it does not vary with the length."""
    grown = factor * factor - (factor - 1)
    return theta * grown ** (head_dim / (head_dim - 2))


MULTI_HEAD = {"num_key_value_heads": 4}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

SERVED = (
    Family("Llama", "llama", "rotary over the whole head, grouped queries"),
    Family(
        "Llama 3.1",
        "llama",
        "frequencies scaled by wavelength",
        rope("llama3", **LLAMA3, original_max_position_embeddings=2048),
    ),
    Family("linear scaling", "llama", "positions divided by 4", rope("linear", factor=4.0)),
    Family(
        "dynamic NTK",
        "llama",
        "SGLang's table: one base for all lengths",
        rope("dynamic", factor=4.0),
        rope("default", ntk_theta(4.0, 16)),
    ),
    Family(
        "YaRN",
        "qwen2",
        "table of magnitude above 1",
        rope("yarn", factor=4.0, original_max_position_embeddings=4096),
    ),
    Family("Qwen2", "qwen2", "biases"),
    Family("Qwen3", "qwen3", "queries and keys normalised", {"head_dim": 32}),
    Family("Mistral", "mistral", "without its window", {"sliding_window": None, "head_dim": 32}),
    Family(
        "Gemma",
        "gemma",
        "heads of 256, one KV head",
        {"head_dim": 256, "num_key_value_heads": 1, "tie_word_embeddings": True},
    ),
    Family("Phi-3", "phi3", "projections in one"),
    Family(
        "Phi",
        "phi",
        "half rotary, attention beside the MLP",
        {"partial_rotary_factor": 0.5, "intermediate_size": 256, **MULTI_HEAD},
    ),
    Family("StableLM", "stablelm", "quarter rotary", {"partial_rotary_factor": 0.25}),
    Family(
        "GLM-4",
        "glm4",
        "half rotary, neighbours paired",
        {"head_dim": 32, "partial_rotary_factor": 0.5},
    ),
    Family(
        "Cohere (Command R)",
        "cohere",
        "neighbours paired, norms over heads, scaled logits",
        {"use_qk_norm": True, "logit_scale": 4.0, "tie_word_embeddings": True},
    ),
    Family(
        "Granite",
        "granite",
        "attention, residual and logit multipliers",
        {
            "attention_multiplier": 0.5,
            "residual_multiplier": 0.5,
            "embedding_multiplier": 3.0,
            "logits_scaling": 2.0,
        },
    ),
    Family("OLMo", "olmo", "norms without weights", MULTI_HEAD),
    Family("OLMo 2", "olmo2", "norm over all heads, norms after layers"),
    Family("Starcoder2", "starcoder2", "biases, layer norms", {"sliding_window": None}),
    Family("Arcee", "arcee", "squared ReLU"),
    Family("Apertus", "apertus", "queries and keys normalised, xIELU"),
    Family(
        "Persimmon",
        "persimmon",
        "half rotary, queries and keys normalised",
        {"partial_rotary_factor": 0.5, **MULTI_HEAD},
    ),
    Family("Ministral 3", "ministral3", "up to the length from which it scales queries"),
    Family("Mixtral", "mixtral", "experts", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    Family("Qwen3-MoE", "qwen3_moe", "experts", {**EXPERTS, "head_dim": 32}),
    Family("OLMoE", "olmoe", "experts, norm over all heads", {**EXPERTS, **MULTI_HEAD}),
    Family("GraniteMoE", "granitemoe", "experts, multipliers"),
    Family("GLM-4-MoE", "glm4_moe", "experts, half rotary"),
)

WINDOW = {"sliding_window": 4096}
LATENT = {
    "kv_lora_rank": 32,
    "q_lora_rank": None,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "num_key_value_heads": 4,
}
A_WINDOW = "it uses sliding-window attention, over 4096 tokens"
ON_TRITON = {"attention_backend": "triton"}  # their other demands fail first on the CPU
A_STATE = "it has state-space or linear-attention layers, whose state depends on all tokens"
FOREIGN = "SGLang runs it on Hugging Face's modules, whose positions cannot be deferred"
ALIBI = "it uses ALiBi, not rotary position embeddings"
LONGROPE = {
    "short_factor": [1.0] * 8,
    "long_factor": [4.0] * 8,
    "original_max_position_embeddings": 4096,
}

REFUSED = (
    Family("DeepSeek-V2", "deepseek_v2", "it uses multi-head latent attention", LATENT),
    Family("DeepSeek-V3", "deepseek_v3", "it uses multi-head latent attention", LATENT),
    Family("Mistral with a window", "mistral", A_WINDOW, WINDOW),
    Family(
        "Qwen2 with a window",
        "qwen2",
        A_WINDOW,
        {**WINDOW, "use_sliding_window": True, "max_window_layers": 0},
    ),
    Family("Phi-3 with a window", "phi3", A_WINDOW, WINDOW),
    Family("Gemma 2", "gemma2", A_WINDOW, WINDOW),
    Family("Gemma 3", "gemma3_text", A_WINDOW, WINDOW),
    Family("OLMo 3", "olmo3", A_WINDOW, WINDOW),
    Family("Cohere 2 (Command R7B)", "cohere2", A_WINDOW, WINDOW),
    Family("EXAONE 4", "exaone4", A_WINDOW, WINDOW, settings=ON_TRITON),
    Family("gpt-oss", "gpt_oss", "it uses learned attention sinks", WINDOW, settings=ON_TRITON),
    Family(
        "Llama 4",
        "llama4_text",
        "it attends within chunks of 4096 tokens",
        {"attention_chunk_size": 4096},
        architecture="Llama4ForCausalLM",
    ),
    Family(
        "Phi-3 with LongRoPE",
        "phi3",
        "its LongRoPE table depends on the other requests of a pass",
        rope("longrope", **LONGROPE),
    ),
    Family(
        "YaRN beyond its length",
        "qwen2",
        "its rotary angles are not proportional to the position from 15975 on",
        rope("yarn", factor=3.9, original_max_position_embeddings=4096),
    ),
    Family(
        "Ministral 3 beyond its first length",
        "ministral3",
        "layer 0 scales by position (at 32768)",
        {
            "max_position_embeddings": 65536,
            **rope(
                "yarn",
                factor=4.0,
                original_max_position_embeddings=16384,
                llama_4_scaling_beta=0.1,
            ),
        },
    ),
    Family("SmolLM3", "smollm3", FOREIGN),
    Family("GPT-NeoX (Pythia)", "gpt_neox", FOREIGN),
    Family("Falcon with ALiBi", "falcon", ALIBI, {"alibi": True}),
    Family("BLOOM", "bloom", ALIBI),
    Family("MPT", "mpt", ALIBI),
    Family(
        "GPT-2",
        "gpt2",
        "needs rotary position embeddings, "
        "which transformer.h.0.attn (GPT2Attention) does not have",
    ),
    Family("Qwen3-Next", "qwen3_next", A_STATE),
    Family("Falcon-H1", "falcon_h1", A_STATE),
    Family("LFM2", "lfm2", A_STATE),
    Family("Jamba", "jamba", "it has layers of kind mamba"),
    Family("Nemotron-H", "nemotron_h", A_STATE),
    Family(
        "Qwen2-VL",
        "qwen2_vl",
        "it is multimodal",
        architecture="Qwen2VLForConditionalGeneration",
    ),
    Family(
        "Whisper",
        "whisper",
        "it is an encoder-decoder model, whose decoder attends to an encoder's output",
        architecture="WhisperForConditionalGeneration",
    ),
    Family("BERT", "bert", "it does not generate text", architecture="BertModel"),
)
