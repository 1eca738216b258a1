"""Records of a public file: JSON, JSON lines, or Parquet; the first two also gzipped."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from sglang_lazy.evaluate.dataset import ENCODING, DatasetError

_LIST_KEYS = ("Data", "data")
"""Where a JSON object holds its list of records (TriviaQA)."""


def read_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """One mapping a question.

    Raises:
        DatasetError: the file holds something else.
    """
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    try:
        with _open(path) as file:
            start = file.read(1)
            while start.isspace():
                start = file.read(1)
            file.seek(0)
            if start == "[" or path.name.removesuffix(".gz").endswith(".json"):
                yield from _json(path, file)
            else:
                for line in file:
                    if line.strip():
                        yield json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as e:
        raise DatasetError(f"{path} is neither JSON nor JSON lines: {e}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise DatasetError(f"{path} cannot be unpacked: {e}") from None


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding=ENCODING)
    return path.open(encoding=ENCODING)


def _json(path: Path, file: TextIO) -> Iterator[Mapping[str, Any]]:
    text = file.read()
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        # Some sets call JSON lines ".json". Not splitlines: JSON may hold U+2028 as it is.
        yield from (json.loads(line) for line in text.split("\n") if line.strip())
        return
    if isinstance(data, dict):
        lists = [data[key] for key in _LIST_KEYS if isinstance(data.get(key), list)]
        data = lists[0] if lists else [data]
    if not isinstance(data, list):
        raise DatasetError(f"{path} holds no list of questions")
    yield from data


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()


def rows(table: Any) -> list[Mapping[str, Any]]:
    """A list of mappings, also where it is stored as a mapping of lists (Hugging Face)."""
    if not isinstance(table, Mapping):
        return list(table or ())
    columns = {name: list(values) for name, values in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
