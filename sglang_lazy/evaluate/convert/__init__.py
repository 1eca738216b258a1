"""Public question sets, made into this package's JSONL."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from sglang_lazy.evaluate.convert.files import read_records
from sglang_lazy.evaluate.convert.hotpotqa import hotpotqa
from sglang_lazy.evaluate.convert.natural_questions import natural_questions
from sglang_lazy.evaluate.convert.options import Options
from sglang_lazy.evaluate.convert.triviaqa import triviaqa
from sglang_lazy.evaluate.convert.two_wiki import two_wiki
from sglang_lazy.evaluate.dataset import Example, write_examples

__all__ = ["CONVERTERS", "Options", "convert"]

Converter = Callable[[Iterable[Mapping[str, Any]], Options], Iterator[Example]]

CONVERTERS: Mapping[str, Converter] = {
    "hotpotqa": hotpotqa,
    "2wiki": two_wiki,
    "nq": natural_questions,
    "triviaqa": triviaqa,
}


def convert(name: str, source: Path, target: Path, options: Options, limit: int | None) -> int:
    """Write the first ``limit`` questions of a public file; returns how many there are.

    Raises:
        DatasetError: the file is not in the format.
        OSError: a file cannot be read or written.
    """
    examples = CONVERTERS[name](read_records(source), options)
    return write_examples(target, islice(examples, limit))
