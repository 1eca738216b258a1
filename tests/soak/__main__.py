"""`python -m tests.soak`: random traffic against a real server, every answer checked.

Needs the tests' extra, and for the tokenizer `make model`. See docs/reliability.md.
"""

import argparse
import contextlib
import json
import random
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from transformers import AutoTokenizer

from ..engines import Server, command_line, running_server
from ..oracle import CachingOracle
from ..prepared import real_model
from .arena import Arena
from .hunt import hunt
from .judge import Judge
from .model import save_small_model
from .run import run
from .traffic import SERVER, Traffic


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of traffic; default 600")
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument(
        "--model", choices=("small", "real"), default="small", help="random weights, or SmolLM2"
    )
    parser.add_argument("--shrink-seconds", type=float, default=300, help="for a small script")
    parser.add_argument("--output", type=Path, default=Path("build/soak"), help="for the script")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def model(name: str) -> Iterator[Path]:
    real = real_model()
    if name == "real":
        yield real
        return
    with tempfile.TemporaryDirectory() as directory:
        save_small_model(Path(directory), real)
        yield Path(directory)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}, {options.model} model, {options.seconds:g} s", flush=True)
    with model(options.model) as model_dir:
        tokenizer = AutoTokenizer.from_pretrained(model_dir)
        judge = Judge(CachingOracle(model_dir), tokenizer, tokenizer.bos_token_id)

        def start() -> contextlib.AbstractContextManager[Server]:
            return running_server(model_dir, **SERVER)

        arena = Arena(start)
        try:
            report = run(arena, Traffic(seed, tokenizer), judge, options.seconds)
            print(json.dumps(report.figures(), indent=2))
            if not report.faults:
                print("every answer was right, and nothing was lost")
                return 0
            print(*report.faults, sep="\n", file=sys.stderr)
            path = options.output / f"fault_{options.model}_{seed}.py"
            command = "python -m sglang.launch_server --model-path MODEL "
            command += shlex.join(command_line(SERVER))
            small = hunt(arena, report, judge, options.shrink_seconds, path, command)
            what = "all steps; it did not happen again" if small is None else f"{len(small)} steps"
            print(f"wrote {path}: {what}", file=sys.stderr)
            return 1
        finally:
            arena.close()


if __name__ == "__main__":
    sys.exit(main())
