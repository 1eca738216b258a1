"""Start engines with settings read from stdin; print why each was refused.

Run by test_refusals.py in a process of its own: settings that start an engine start
processes, and reading settings changes the environment.
"""

import json
import sys

import sglang


def refusal(settings: dict) -> str | None:
    """The error of an engine with these settings, or None where it starts."""
    try:
        engine = sglang.Engine(**settings)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    engine.shutdown()
    return None


if __name__ == "__main__":
    refusals = [refusal(settings) for settings in json.load(sys.stdin)]
    print("\n" + json.dumps(refusals))
