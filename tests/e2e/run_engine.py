"""Answer requests read from stdin with a `sglang.Engine`; print the outputs.

Run by engine_process.py in a process of its own, as an engine ends the process that
holds it when its scheduler dies.
"""

import json
import sys

import sglang


def answer(engine: sglang.Engine, request: dict) -> object:
    """The output of `Engine.generate`, or the message of its ValueError."""
    try:
        return engine.generate(**request)
    except ValueError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    job = json.load(sys.stdin)
    with sglang.Engine(**job["settings"]) as engine:
        outputs = [answer(engine, request) for request in job["requests"]]
        print("\n" + json.dumps(outputs), flush=True)
