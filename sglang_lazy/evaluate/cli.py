"""The command line: ``run`` measures, ``convert`` makes questions of public sets."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sglang_lazy.evaluate.convert import CONVERTERS, Options, convert
from sglang_lazy.evaluate.dataset import DatasetError
from sglang_lazy.evaluate.evaluation import Job, evaluate
from sglang_lazy.evaluate.measure import Settings
from sglang_lazy.evaluate.modes import DEFAULT_MODES, FULL, parse_mode
from sglang_lazy.evaluate.plot import SUFFIXES
from sglang_lazy.evaluate.prompt import DOCUMENT_FORMAT, MESSAGE
from sglang_lazy.evaluate.record import METRICS

FAILED, BAD_USE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status.

    0: everything was measured. 1: something failed, and was reported. 2: nothing could be
    begun. 130: interrupted; results so far are in the file.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    server_args: list[str] = []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, server_args = arguments[:cut], arguments[cut + 1 :]
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        if args.command == "convert":
            return _convert(args)
        return evaluate(_job(args, server_args))
    except (ValueError, ImportError, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        return BAD_USE
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        return INTERRUPTED


def _convert(args: argparse.Namespace) -> int:
    options = Options(args.max_documents, args.max_words, args.seed, args.evidence)
    count = convert(args.format, args.source, args.target, options, args.limit)
    if not count:
        raise DatasetError(f"{args.source} holds no questions")
    print(f"{args.target}: {count} questions")
    return 0


def _job(args: argparse.Namespace, server_args: Sequence[str]) -> Job:
    if server_args and not args.model_path:
        raise ValueError("options after -- are for an engine: give --model-path")
    if args.plot and args.plot.suffix not in SUFFIXES:
        raise ValueError(f"--plot needs a file that ends in {', '.join(SUFFIXES)}")
    modes = [parse_mode(name) for name in dict.fromkeys(args.modes)]
    if args.record and FULL not in args.modes:
        raise ValueError(f"--record compares with full attention: add {FULL} to --modes")
    if args.template != "chat" and (args.message or args.chat_template_kwargs != "{}"):
        raise ValueError("--message and --chat-template-kwargs need --template chat")
    chat_arguments = json.loads(args.chat_template_kwargs)
    if not isinstance(chat_arguments, dict):
        raise ValueError("--chat-template-kwargs must be a JSON object")
    return Job(
        data=args.data,
        limit=args.limit,
        url=args.url,
        api_key=args.api_key,
        model_path=args.model_path,
        server_args=server_args,
        tokenizer=args.tokenizer,
        template=args.template,
        message=_unescaped(args.message or MESSAGE),
        document_format=_unescaped(args.document_format),
        chat_arguments=chat_arguments,
        modes=modes,
        settings=Settings(
            max_new_tokens=args.max_new_tokens,
            stop=tuple(map(_unescaped, args.stop)),
            answer_after=args.answer_after,
            top_logprobs=args.top_logprobs,
            reorder=not args.no_reorder,
            seed=args.seed,
            lora_path=args.lora_path,
        ),
        concurrency=args.concurrency,
        timeout=args.timeout,
        results=args.results or args.data.with_suffix(".results.jsonl"),
        out=args.out,
        plot=args.plot,
        record=args.record,
        record_metric=args.record_metric,
        gpu=args.gpu,
        commit=args.commit,
    )


def _escaped(text: str) -> str:
    return text.replace("\n", "\\n")


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sglang_lazy.evaluate",
        description="Measure what encoding documents alone costs a model's answers.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    # No abbreviations: a recorded command leaves options out by their names (--api-key).
    for name, add_options, what in (
        ("run", _add_run, "ask questions in several modes, side by side"),
        ("convert", _add_convert, "make questions of a public set"),
    ):
        add_options(commands.add_parser(name, help=what, allow_abbrev=False))
    return parser


def _add_run(run: argparse.ArgumentParser) -> None:
    add = run.add_argument
    add("data", type=Path, help="questions, JSONL: question, documents, answers, kind")
    add("--limit", type=_positive, metavar="N", help="ask the first N questions only")

    group = run.add_argument_group("model", "One of the two.")
    where = group.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="a running server, such as http://127.0.0.1:30000")
    where.add_argument(
        "--model-path", help="start an engine; options for it, as of the server's, after --"
    )
    group.add_argument("--api-key", help="of the server")
    group.add_argument("--lora-path", metavar="NAME", help="the LoRA adapter that is to answer")
    group.add_argument("--tokenizer", help="folder or name (default: the one that the server uses)")
    group.add_argument("--timeout", type=float, default=600, help="seconds for an answer")
    group.add_argument(
        "--concurrency", type=_positive, default=8, metavar="N", help="questions asked at a time"
    )

    group = run.add_argument_group("what is asked")
    group.add_argument(
        "--modes",
        nargs="+",
        default=list(DEFAULT_MODES),
        metavar="MODE",
        help="full, none, sink, preamble, link:K, sink+link:K, preamble+link:K, no-documents "
        f"(default: {' '.join(DEFAULT_MODES)})",
    )
    group.add_argument(
        "--template",
        default="chat",
        metavar="chat|FILE",
        help="the tokenizer's chat template, or a file with {documents} and {question}",
    )
    group.add_argument(
        "--message",
        metavar="TEXT",
        help=f"what the user says under the chat template (default: {_escaped(MESSAGE)})",
    )
    group.add_argument(
        "--document-format",
        default=_escaped(DOCUMENT_FORMAT),
        metavar="FORMAT",
        help="how {title} and {text} make a document (default: %(default)s)",
    )
    group.add_argument(
        "--chat-template-kwargs",
        default="{}",
        metavar="JSON",
        help='more variables of the chat template, such as {"enable_thinking": false}',
    )
    group.add_argument(
        "--max-new-tokens",
        type=_positive,
        default=32,
        metavar="N",
        help="of an answer (default: %(default)s)",
    )
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="ends an answer; repeatable"
    )
    group.add_argument(
        "--answer-after",
        default="",
        metavar="TEXT",
        help="judge what follows the last such text of an answer that has it",
    )
    group.add_argument(
        "--top-logprobs",
        type=_positive,
        default=256,
        metavar="K",
        help="likeliest tokens that the divergence looks at (default: %(default)s)",
    )
    group.add_argument(
        "--no-reorder", action="store_true", help="do not ask again with reordered documents"
    )
    group.add_argument("--seed", type=int, default=0, help="of orders and of the bootstrap")

    group = run.add_argument_group("results")
    group.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="single results, continued if they are there (default: DATA.results.jsonl)",
    )
    group.add_argument("--out", type=Path, metavar="FILE", help="write all figures as JSON")
    group.add_argument("--plot", type=Path, metavar="FILE", help="draw them (png, svg, pdf)")
    group.add_argument(
        "--record", type=Path, metavar="DIR", help="write quality_<mode>.json for each mode"
    )
    group.add_argument(
        "--record-metric", choices=list(METRICS), default="contains", help="(default: %(default)s)"
    )
    group.add_argument("--gpu", help="recorded where the server is elsewhere")
    group.add_argument("--commit", help="recorded where the package lies in no repository")


def _add_convert(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("format", choices=list(CONVERTERS))
    add("source", type=Path, help="JSON, JSONL or Parquet; also .gz")
    add("target", type=Path, help="JSONL to write")
    add("--limit", type=_positive, metavar="N", help="the first N questions only")
    add("--max-documents", type=_positive, metavar="N", help="documents that a question keeps")
    add("--max-words", type=_positive, metavar="N", help="words that a document keeps")
    add("--seed", type=int, default=0, help="of the order of documents, where a set has none")
    add("--evidence", type=Path, metavar="DIR", help="TriviaQA's folder of texts")
