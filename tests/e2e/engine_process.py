"""`run_engine.py` in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..engines import STRICT_CHECKS


def run_engine(job: dict[str, Any], **environment: str) -> list[Any]:
    """Outputs of an engine, which checks its memory strictly.

    Args:
        job: `settings` of the engine, and the `requests` that it answers.
        environment: further variables of the process.
    """
    result = subprocess.run(
        [sys.executable, Path(__file__).with_name("run_engine.py")],
        input=json.dumps(job),
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
        env={**os.environ, **STRICT_CHECKS, **environment},
    )
    return json.loads(result.stdout.splitlines()[-1])
