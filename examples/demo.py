"""Ask questions about the same documents in ever new orders, with reuse and without.

Starts a server with ``--chunk-cache lazy``, sends each prompt as segments, and then
sends the same prompts as plain text to a stock server (``--chunk-cache off``), whose
prefix cache can reuse a document only where everything before it is equal as well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from documents import DOCUMENTS, QUESTIONS, Question
from prepare_model import default_model_dir, prepare_tuned
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from server import Server, ServerError, exit_on_signals, free_port

Segment = dict[str, str]

LOG_DIR = Path(__file__).resolve().parents[1] / "build" / "demo"
SAMPLING = {"temperature": 0, "max_new_tokens": 16, "stop": [".", "\n"]}
HINTS = """\
What to check:
  - 'unrecognized arguments: --chunk-cache': sglang-lazy is not installed for {python}
  - 'address already in use': another server has the port; leave --port out
  - killed, or out of memory: the demo needs about 4 GB of free memory
The whole log is in {log}"""


@dataclass(frozen=True)
class Answer:
    """What a server said, and what it cost."""

    text: str
    prompt_tokens: int
    cached_tokens: int
    seconds_to_first_token: float


def chat_markup(model: str) -> tuple[str, str]:
    """What the model's chat template puts before and after the text of one user message."""
    from transformers import AutoTokenizer

    message = "<message>"
    tokenizer = AutoTokenizer.from_pretrained(model)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
    )
    before, after = prompt.split(message)
    return before, after


def prompt_segments(question: Question, markup: tuple[str, str]) -> list[Segment]:
    """The prompt of one question: documents between pieces of ordinary text.

    Segments are tokenised one by one. Blank lines stand at the head of a segment,
    where this model's tokens are the same as in the unbroken text.
    """
    before, after = markup
    return [
        {"text": f"{before}Answer the question from these notes."},
        *({"document": f"\n\n{DOCUMENTS[name]}"} for name in question.order),
        {"text": f"\n\nQuestion: {question.text}{after}{question.opening}"},
    ]


def plain_text(segments: Sequence[Segment]) -> str:
    """The same prompt without its structure."""
    return "".join(text for segment in segments for text in segment.values())


def ask(server: Server, prompt: dict[str, Any]) -> Answer:
    """Send one prompt to ``/generate`` and time its first token."""
    body = {**prompt, "sampling_params": SAMPLING, "stream": True}
    start = time.monotonic()
    first_token: float | None = None
    output: dict[str, Any] = {}
    with requests.post(f"{server.url}/generate", json=body, stream=True, timeout=300) as response:
        if not response.ok:
            raise ServerError(f"/generate answered {response.status_code}: {response.text}")
        for line in response.iter_lines():
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            if first_token is None:
                first_token = time.monotonic() - start
            output = json.loads(line.removeprefix(b"data: "))
            if "error" in output:
                raise ServerError(f"/generate answered {output['error']}")
    if first_token is None:
        raise ServerError("/generate ended without an answer")
    meta = output["meta_info"]
    return Answer(output["text"].strip(), meta["prompt_tokens"], meta["cached_tokens"], first_token)


def run_mode(console: Console, mode: str, arguments: argparse.Namespace) -> list[Answer]:
    """Start a server with ``--chunk-cache mode``, ask every question, stop the server."""
    options = ["--model-path", arguments.model, "--chunk-cache", mode]
    server = Server(
        [*options, *arguments.server_args],
        port=arguments.port or free_port(),
        log=LOG_DIR / f"server-{mode}.log",
    )
    title = f"--chunk-cache {mode}"
    console.print(f"{title}: starting the server (log: {server.log})", soft_wrap=True)
    try:
        with server:
            with console.status("loading") as status:
                seconds = server.wait_until_ready(
                    lambda elapsed: status.update(f"{title}: loading, {elapsed:.0f} s")
                )
            console.print(f"{title}: ready after {seconds:.0f} s")
            with console.status("asking") as status:
                markup = chat_markup(arguments.model)
                ask(server, {"text": "Hello"})  # one-time costs belong to no question
                answers = []
                for number, question in enumerate(QUESTIONS, start=1):
                    status.update(f"{title}: question {number} of {len(QUESTIONS)}")
                    segments = prompt_segments(question, markup)
                    prompt = {"text": plain_text(segments)}
                    answers.append(
                        ask(server, {"segments": segments} if mode == "lazy" else prompt)
                    )
            console.print(f"{title}: {len(answers)} questions answered\n")
            return answers
    except (ServerError, requests.RequestException) as error:
        hints = HINTS.format(python=sys.executable, log=server.log)
        console.print(f"\n{server.log_tail()}\n", markup=False, highlight=False, soft_wrap=True)
        console.print(f"[bold red]{title}: {escape(str(error))}[/]")
        console.print(hints, markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(1) from None


def report(console: Console, answers: dict[str, list[Answer]]) -> None:
    """Print the answers of all modes side by side, and what each mode cost in total."""
    table = Table(title=f"{len(QUESTIONS)} questions about the same {len(DOCUMENTS)} documents")
    table.add_column("question, start of the answer, and how each server goes on")
    table.add_column("chunk\ncache")
    for heading in ("prompt\ntokens", "cached\ntokens", "first\ntoken"):
        table.add_column(heading, justify="right")
    for index, question in enumerate(QUESTIONS):
        table.add_row(f"[bold]{question.text}[/]\n[dim]{question.opening} ...[/]")
        for mode, given in answers.items():
            answer = given[index]
            mark = "[green]✓[/]" if question.is_answered_by(answer.text) else "[red]✗[/]"
            table.add_row(
                f"{mark} {escape(answer.text)}",
                mode,
                str(answer.prompt_tokens),
                str(answer.cached_tokens),
                f"{answer.seconds_to_first_token:.2f} s",
            )
        table.add_section()
    console.print(table)
    for mode, given in answers.items():
        prompt = sum(answer.prompt_tokens for answer in given)
        cached = sum(answer.cached_tokens for answer in given)
        seconds = sum(answer.seconds_to_first_token for answer in given)
        pairs = zip(QUESTIONS, given, strict=True)
        right = sum(question.is_answered_by(answer.text) for question, answer in pairs)
        console.print(
            f"{mode:>4}: {cached:,} of {prompt:,} prompt tokens came from the cache "
            f"({cached / prompt:.0%}); {seconds:.1f} s until the first tokens; "
            f"{right} of {len(given)} right",
            soft_wrap=True,
        )
    console.print(
        "\nWith reuse, documents do not see each other: this checkpoint was trained for it "
        "(examples/block_finetune); one that was not loses answers (README.md, Quality).",
        soft_wrap=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        help="folder or name of a model with a chat template "
        "(default: SmolLM2-135M-Instruct, block-fine-tuned, made by prepare_model.py --tuned)",
    )
    parser.add_argument("--port", type=int, help="port of the server (default: a free one)")
    parser.add_argument(
        "--modes", nargs="+", choices=("lazy", "off"), default=["lazy", "off"], metavar="MODE"
    )
    parser.add_argument(
        "server_args", nargs="*", help="after --: more options for sglang.launch_server"
    )
    arguments = parser.parse_args()
    arguments.model = arguments.model or str(prepare_tuned(default_model_dir()))

    console = Console()
    try:
        with exit_on_signals():
            answers = {mode: run_mode(console, mode, arguments) for mode in arguments.modes}
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    report(console, answers)


if __name__ == "__main__":
    main()
