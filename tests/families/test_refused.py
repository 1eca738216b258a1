"""Models that cannot be served are refused at start-up, by name and in one sentence."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from sglang_lazy.models import check_model

from .schedulers import Schedulers
from .shapes import REFUSED, Family


@pytest.mark.server
@pytest.mark.parametrize("family", REFUSED, ids=lambda family: family.name)
def test_refused(family: Family, schedulers: Schedulers, tmp_path: Path) -> None:
    family.save_config(tmp_path)
    result = schedulers.serve(tmp_path, [], load_format="dummy", **family.settings)
    assert "error" in result, "the model was served"
    error = result["error"]
    assert error.startswith("ValueError: --chunk-cache lazy ")
    assert error.endswith(family.about)
    assert "\n" not in error


def test_alibi_that_only_sglang_knows_of() -> None:
    """Baichuan-13B; its configuration is code of the checkpoint's."""
    config = SimpleNamespace(architectures=["BaichuanForCausalLM"], hidden_size=5120)
    model_config = SimpleNamespace(
        hf_config=config,
        hf_text_config=config,
        context_len=4096,
        is_encoder_decoder=False,
        is_generation=True,
        is_multimodal=False,
        model_is_mrope=False,
        attention_arch=None,
        use_alibi=True,
    )
    config.get_text_config = lambda: config
    model_config.is_draft_model = False
    with pytest.raises(ValueError, match="does not support BaichuanForCausalLM: it uses ALiBi"):
        check_model(model_config)
