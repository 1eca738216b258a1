"""Everything that depends on the SGLang version.

Written for 0.5.17. Newer releases move fields between ``Req`` and ``req.kv`` and
reshape ``MatchResult``; those differences belong here and nowhere else.
"""

from sglang_lazy.compat.forward import (
    capture_decode_graphs,
    decode_mode,
    flash_attention_3,
    has_decode_graphs,
    model_output,
    needs_last_logits_only,
    run_at_positions,
    without_decode_graphs,
    write_kv,
)
from sglang_lazy.compat.lora import (
    PageableMemory,
    assign_adapters,
    forget_adapters,
    has_adapters,
    without_lora_graphs,
)
from sglang_lazy.compat.models import (
    break_even_keys,
    has_latent_attention,
    has_state_space_layers,
    runs_on_transformers,
)
from sglang_lazy.compat.requests import (
    INFO_KEY,
    attach_info,
    lock_result,
    match_result,
    namespace,
    no_room,
    skip_request,
    take_infos,
    unlock_result,
    would_be_chunked,
)
from sglang_lazy.compat.server import (
    SUMMARY_RID,
    ask_for_summaries,
    dp_rank,
    eviction_policies,
    for_administrators,
    metric_classes,
    offer_eviction_policy,
    prefill_graph_backend,
    resolved_settings,
    sglang_version,
    summary_limit,
    summary_reply,
)

__all__ = [
    "INFO_KEY",
    "SUMMARY_RID",
    "PageableMemory",
    "ask_for_summaries",
    "assign_adapters",
    "attach_info",
    "break_even_keys",
    "capture_decode_graphs",
    "decode_mode",
    "dp_rank",
    "eviction_policies",
    "flash_attention_3",
    "for_administrators",
    "forget_adapters",
    "has_adapters",
    "has_decode_graphs",
    "has_latent_attention",
    "has_state_space_layers",
    "lock_result",
    "match_result",
    "metric_classes",
    "model_output",
    "namespace",
    "needs_last_logits_only",
    "no_room",
    "offer_eviction_policy",
    "prefill_graph_backend",
    "resolved_settings",
    "run_at_positions",
    "runs_on_transformers",
    "sglang_version",
    "skip_request",
    "summary_limit",
    "summary_reply",
    "take_infos",
    "unlock_result",
    "without_decode_graphs",
    "without_lora_graphs",
    "would_be_chunked",
    "write_kv",
]
