"""Write a schedule as a script of its own, which needs Python and `requests` only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from pprint import pformat
from typing import Any

from . import replay
from .verdict import Fault

HEAD = '''#!/usr/bin/env python3
"""A fault that `python -m tests.soak` found and made small.

{fault}

Start the server, then this script with its address:

    {server}
    python {name} http://127.0.0.1:30000

It prints every answer, and ends with 1 where one of them is as wrong as it was.
"""

import sys
'''

MAIN = '''

WORKERS = {workers}
STEPS = {steps}

EXPECTED = {expected}
"""Of answers that were wrong, by step: their tokens, and the logprobs by the oracle."""


def main():
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:30000"
    _, outcomes = play(url, STEPS, WORKERS)
    wrong = 0
    for outcome in outcomes:
        print(outcome["id"], outcome["path"], outcome["status"], outcome["error"] or "")
        got = answers(outcome)
        for answer in got:
            print("   ", answer.get("ids"), answer.get("logprobs"), repr(answer.get("text")))
        if outcome["error"] or outcome["status"] not in (200, 400, None):
            wrong += 1
        expected = EXPECTED.get(outcome["id"])
        if expected is None or not got or "logprobs" not in got[0]:
            continue
        told = zip(got[0]["ids"], got[0]["logprobs"])
        known = zip(expected["ids"], expected["logprobs"])
        for (token, logprob), (known_token, right) in zip(told, known):
            if token != known_token:  # the oracle's figures are of another answer from here on
                break
            if not abs(logprob - right) <= {tolerance}:
                print(f"    wrong: token {{token}} has {{logprob}}, not {{right}}")
                wrong += 1
                break
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
'''


def write_script(
    path: Path,
    steps: Sequence[Mapping[str, Any]],
    fault: Fault,
    server: str,
    expected: Mapping[int, Any],
    tolerance: float,
    workers: int,
) -> None:
    """
    Args:
        steps: numbered from 0 on.
        server: the command that starts the server.
        expected: by step, the `ids` of an answer and the `logprobs` that they should have.
    """
    player = Path(replay.__file__).read_text().split('"""', 2)[2].lstrip()
    bare = [{k: v for k, v in step.items() if k != "judge"} for step in steps]
    message = str(fault).replace("\\", "\\\\").replace('"""', "'''")
    head = HEAD.format(fault=message, server=server, name=path.name)
    main = MAIN.format(
        workers=workers,
        steps=pformat(bare, width=96, compact=True, sort_dicts=False),
        expected=pformat(dict(expected), width=96, compact=True, sort_dicts=False),
        tolerance=tolerance,
    )
    path.write_text(head + player + main)
