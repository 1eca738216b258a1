"""One evaluation from its settings to its figures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sglang_lazy import provenance
from sglang_lazy.evaluate import plot, record, report
from sglang_lazy.evaluate.client import Client, ModelInfo
from sglang_lazy.evaluate.dataset import Example, read_examples
from sglang_lazy.evaluate.measure import Examiner, Settings
from sglang_lazy.evaluate.modes import Mode
from sglang_lazy.evaluate.preflight import knows_link_tokens, refusal
from sglang_lazy.evaluate.prompt import PromptWriter, Template, chat_template, file_template
from sglang_lazy.evaluate.results import ResultsFile
from sglang_lazy.evaluate.run import run
from sglang_lazy.evaluate.summary import Summary, summarize
from sglang_lazy.http_client import ServerUnreachable

SHOWN_ERRORS = 5
WIDTH = 160
"""Of the table where it goes to a file."""
NOT_REPEATED = ("--out", "--results", "--plot", "--record", "--gpu", "--commit", "--api-key")
"""Options that a recorded command leaves out: they change no figure, or are secret."""


@dataclass(frozen=True)
class Job:
    """What the command line asks for; ``cli`` says what each of it means."""

    data: Path
    limit: int | None
    url: str | None
    api_key: str | None
    model_path: str | None
    server_args: Sequence[str]
    tokenizer: str | None
    template: str
    message: str
    document_format: str
    chat_arguments: Mapping[str, Any]
    modes: Sequence[Mode]
    settings: Settings
    concurrency: int
    timeout: float
    results: Path
    out: Path | None
    plot: Path | None
    record: Path | None
    record_metric: str
    gpu: str | None
    commit: str | None


def evaluate(job: Job) -> int:
    """Measure, report and write; returns the exit status (see ``cli.main``).

    Raises:
        ValueError: data, template, results or options that cannot be used.
        OSError: a file that cannot be read or written.
        ImportError: a plot is asked for, and matplotlib is not installed.
    """
    console = Console(stderr=True)
    examples = read_examples(job.data, job.limit)
    if job.template != "chat":
        file_template(Path(job.template), job.document_format)  # before a model is loaded
    if job.plot:
        import matplotlib  # noqa: F401
    engine: Client | None = None
    if job.model_path:
        from sglang_lazy.evaluate.engine_client import EngineClient

        console.print(f"starting an engine for {job.model_path}")
        engine = EngineClient(job.model_path, job.server_args)
    return asyncio.run(_evaluate(job, examples, engine, console))


async def _evaluate(
    job: Job, examples: Sequence[Example], engine: Client | None, console: Console
) -> int:
    async with _closing(engine or _http_client(job)) as client:
        try:
            info = await client.model_info()
        except ServerUnreachable as e:
            raise ValueError(str(e)) from None
        writer = _writer(job, info)
        with ResultsFile(job.results, _dependencies(job, info, writer.template)) as results:
            examiner = Examiner(client, writer, job.settings)
            problem = None
            refused: dict[str, str] = {}
            try:
                refused = await _refusals(examiner, job.modes)
                modes = [mode for mode in job.modes if mode.name not in refused]
                await _run_with_bar(examiner, examples, modes, results, job.concurrency, console)
            except ServerUnreachable as e:
                problem = str(e)
        summary = summarize(
            examples, job.modes, results.measured, results.failed, job.settings.seed
        )
        _publish(job, info, writer.template, summary, refused)
    return _verdict(console, job, summary, refused, problem, len(examples))


@contextlib.asynccontextmanager
async def _closing(client: Client) -> AsyncIterator[Client]:
    try:
        yield client
    finally:
        await client.close()


def _http_client(job: Job) -> Client:
    from sglang_lazy.evaluate.http_client import HttpClient

    assert job.url
    return HttpClient(job.url, timeout=job.timeout, api_key=job.api_key)


def _writer(job: Job, info: ModelInfo) -> PromptWriter:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(job.tokenizer or info.tokenizer_path)
    if job.template == "chat":
        template = chat_template(tokenizer, job.message, job.document_format, job.chat_arguments)
    else:
        template = file_template(Path(job.template), job.document_format)
    return PromptWriter(template, tokenizer)


def _dependencies(job: Job, info: ModelInfo, template: Template) -> dict[str, Any]:
    """What results must have in common to be compared."""
    return {"model": info.model_path, "template": asdict(template), **asdict(job.settings)}


async def _refusals(examiner: Examiner, modes: Sequence[Mode]) -> dict[str, str]:
    """Why modes cannot be measured, by name."""
    if any(mode.marks_documents for mode in modes):
        examiner.knows_link_tokens = await knows_link_tokens(examiner.client)
    return {mode.name: why for mode in modes if (why := await refusal(examiner, mode))}


async def _run_with_bar(
    examiner: Examiner,
    examples: Sequence[Example],
    modes: Sequence[Mode],
    results: ResultsFile,
    concurrency: int,
    console: Console,
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failures]}", style="red"),
    )
    with Progress(*columns, console=console) as progress:
        tasks = {
            mode: progress.add_task(mode.name, total=len(examples), failures="") for mode in modes
        }

        def on_progress(mode: Mode, done: int, failures: int) -> None:
            progress.update(
                tasks[mode], completed=done, failures=f"{failures} failed" if failures else ""
            )

        await run(examiner, examples, modes, results, concurrency, on_progress)


def _publish(
    job: Job, info: ModelInfo, template: Template, summary: Summary, refused: Mapping[str, str]
) -> None:
    shown = Console()
    if not shown.is_terminal:
        shown = Console(width=WIDTH)
    shown.print(report.table(summary))
    gpu = job.gpu or info.gpu
    command = provenance.command_line(["python", "-m", "sglang_lazy.evaluate"], NOT_REPEATED)
    if job.out:
        about = {
            "data": job.data.name,
            "settings": _dependencies(job, info, template),
            "gpu": gpu,
            "versions": provenance.versions(),
            "commit": job.commit or provenance.commit(__file__),
            "command": command,
            "refused": dict(refused),
        }
        report.write_json(job.out, summary, about)
    if job.plot:
        plot.write_plot(job.plot, summary)
    if job.record:
        record.write_records(
            summary,
            job.record,
            gpu=gpu,
            command=command,
            commit=job.commit,
            metric=job.record_metric,
            model=Path(info.model_path).name,
            data=job.data.name,
        )


def _verdict(
    console: Console,
    job: Job,
    summary: Summary,
    refused: Mapping[str, str],
    problem: str | None,
    count: int,
) -> int:
    """Say what went wrong; 1 if anything did."""

    def say(text: str) -> None:
        console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)

    for mode, why in refused.items():
        say(f"mode {mode} cannot be measured: {why}")
    for error, times in list(summary.errors.items())[:SHOWN_ERRORS]:
        say(f"{times} failed: {error}")
    if len(summary.errors) > SHOWN_ERRORS:
        say(f"... and {len(summary.errors) - SHOWN_ERRORS} other errors, see {job.results}")
    missing = sum(
        count - figures.n for name, figures in summary.modes.items() if name not in refused
    )
    if problem:
        say(f"stopped: {problem}")
    if missing:
        say(f"{missing} results are missing; the same command asks for these again")
    return 1 if refused or missing or problem else 0
