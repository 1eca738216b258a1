"""Show what a server's chunk cache does, live: occupancy, hits, and the hottest documents."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live

from sglang_lazy.http_client import Client, RequestError, ServerUnreachable
from sglang_lazy.observe.summary import MAX_LISTED
from sglang_lazy.top.sample import take_sample
from sglang_lazy.top.view import screen


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sglang_lazy.top", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="the server")
    parser.add_argument(
        "--api-key",
        default=os.environ.get("SGLANG_API_KEY"),
        help="the server's admin API key, or API key where it has no other "
        "(default: $SGLANG_API_KEY)",
    )
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between readings")
    parser.add_argument("--documents", type=int, default=15, help="documents listed")
    parser.add_argument("--once", action="store_true", help="print one reading and leave")
    args = parser.parse_args(arguments)
    if not 0 <= args.documents <= MAX_LISTED or args.interval <= 0:
        parser.error(f"--documents goes from 0 to {MAX_LISTED}, --interval must be positive")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse_arguments(arguments)
    console = Console()
    client = Client(args.url, args.api_key, retries=0 if args.once else 3)
    try:
        sample = take_sample(client, args.documents)
        if args.once:
            console.print(screen(sample, None, args.url, args.documents))
            return 0
        first = screen(sample, None, args.url, args.documents)
        with Live(first, console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(args.interval)
                before, sample = sample, take_sample(client, args.documents)
                live.update(screen(sample, before, args.url, args.documents), refresh=True)
    except KeyboardInterrupt:
        return 0
    except RequestError as error:
        print(f"{args.url}: {error}", file=sys.stderr)
        if error.status == 404:
            print("It was started without --chunk-cache lazy.", file=sys.stderr)
        return 1
    except ServerUnreachable as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
