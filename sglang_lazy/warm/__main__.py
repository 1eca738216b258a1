"""Encode a corpus of documents into a server's cache, ahead of traffic.

Exit status: 0 if every document is in the cache, 1 if some are not, 2 for wrong arguments,
130 if interrupted. Run it again to resume: what is cached costs next to nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)  # fmt: skip

from sglang_lazy.http_client import Client, RequestError, ServerUnreachable
from sglang_lazy.request.segments import CHUNK_CONTEXTS
from sglang_lazy.warm.corpus import STDIN, corpus_size, read_corpus
from sglang_lazy.warm.warmer import Prompt, Report, Warmer

SHOWN_FAILURES = 20
RESUME = "Run it again to resume."


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sglang_lazy.warm", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "corpus",
        nargs="+",
        help='files of JSON lines, each a string or {"text", "title"?}; "-" for standard input; '
        "directories, of which every file is a document",
    )
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="the server")
    parser.add_argument(
        "--api-key",
        default=os.environ.get("SGLANG_API_KEY"),
        help="the server's API key (default: $SGLANG_API_KEY)",
    )
    parser.add_argument(
        "--template",
        help="how a document stands in prompts, character for character, with {text} and {title}; "
        "by default its text, behind title and newline where it has a title",
    )
    parser.add_argument(
        "--chunk-context",
        choices=CHUNK_CONTEXTS,
        help="what documents see before themselves (default: the server's)",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--preamble",
        help="text before the first document; documents see it with --chunk-context preamble",
    )
    group.add_argument("--preamble-file", type=Path, help="the same, from a file")
    parser.add_argument("--extra-key", help="the extra_key of the requests that will use them")
    parser.add_argument("--cache-salt", help="their cache_salt")
    parser.add_argument("--lora-path", help="the name of their LoRA adapter")
    parser.add_argument("--concurrency", type=int, default=4, help="requests in flight")
    parser.add_argument(
        "--fill",
        type=float,
        default=0.9,
        help="stop when the corpus has taken this share of the cache",
    )
    parser.add_argument("--retries", type=int, default=8, help="of a request that got no answer")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    args = parser.parse_args(arguments)
    if args.preamble_file is not None:
        args.preamble = args.preamble_file.read_text()
    if (args.chunk_context == "preamble") != bool(args.preamble):
        parser.error("--chunk-context preamble and --preamble need each other")
    if args.concurrency < 1 or args.retries < 0 or not 0 < args.fill <= 1:
        parser.error("--concurrency must be positive, --retries not negative, 0 < --fill <= 1")
    for path in args.corpus:
        if path != STDIN and not Path(path).exists():
            parser.error(f"{path} does not exist")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse_arguments(arguments)
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
    )
    task = progress.add_task("", total=corpus_size(args.corpus))
    warmer = None
    fault = ""
    status = 0
    start = time.monotonic()
    try:
        with progress:
            client = Client(args.url, args.api_key, args.retries, args.concurrency)
            warmer = Warmer(
                client,
                Prompt(
                    args.preamble or "",
                    args.chunk_context,
                    args.extra_key,
                    args.cache_salt,
                    args.lora_path,
                ),
                args.concurrency,
                args.fill,
                lambda report: show(progress, task, report),
            )
            warmer.run(read_corpus(args.corpus, args.template))
    except (RequestError, ValueError) as error:
        fault, status = str(error), 1
    except ServerUnreachable as error:
        fault, status = f"{error}\n{RESUME}", 1
    except KeyboardInterrupt:
        fault, status = f"interrupted\n{RESUME}", 130
    report = Report() if warmer is None else warmer.report
    if args.json:
        print(json.dumps(dataclasses.asdict(report)))
    else:
        print(describe(report, time.monotonic() - start))
    for name, why in report.failures[:SHOWN_FAILURES]:
        print(f"{name}: {why}", file=sys.stderr)
    if len(report.failures) > SHOWN_FAILURES:
        print(f"... and {len(report.failures) - SHOWN_FAILURES:,} more", file=sys.stderr)
    if report.left_out and warmer is not None:
        print(
            f"The cache is full: {report.left_out:,} documents were left out, for the first ones "
            f"not to be evicted. Documents may take {warmer.capacity:,} tokens; see --fill.",
            file=sys.stderr,
        )
    if fault:
        print(fault, file=sys.stderr)
    return status or int(bool(report.failures or report.left_out))


def show(progress: Progress, task: TaskID, report: Report) -> None:
    description = f"{report.documents:,} documents, {report.tokens:,} tokens"
    if report.failures:
        description += f", [red]{len(report.failures):,} failed[/]"
    progress.update(task, completed=report.size, description=description)


def describe(report: Report, seconds: float) -> str:
    """The counts, as a person reads them."""
    return (
        f"{report.documents:,} documents are cached, {report.cached_documents:,} of them were "
        f"before; {report.computed_tokens:,} tokens computed, {report.cached_tokens:,} found; "
        f"{report.duplicates:,} duplicates, {len(report.failures):,} failures, "
        f"{report.left_out:,} left out; {seconds:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
