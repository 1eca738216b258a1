"""Models that cannot be served are refused at start-up, by name and in one sentence."""

from pathlib import Path

import pytest
from sglang.srt.configs.model_config import ModelConfig

from sglang_lazy.models import check_model

from .schedulers import Schedulers
from .shapes import REFUSED, SERVED, Family


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


def test_alibi_that_only_sglang_knows_of(tmp_path: Path) -> None:
    """Baichuan-13B, whose configuration is code of the checkpoint's."""
    SERVED[0].save_config(tmp_path)
    model_config = ModelConfig(str(tmp_path))
    check_model(model_config)
    model_config.use_alibi = True
    with pytest.raises(ValueError, match="does not support LlamaForCausalLM: it uses ALiBi"):
        check_model(model_config)
