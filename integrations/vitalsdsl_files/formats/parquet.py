"""Parquet tables, as `history` is exported; read with pyarrow, which the extra `files` brings."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from vitalsdsl.ground.errors import MissingExtraError, SourceError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_files.format import BinaryFormat, Reading
from vitalsdsl_files.rows import flat, stepped

_BATCH = 4096


class Parquet(BinaryFormat):
    """The rows of a table, under its columns; nested ones are joined by `.`. A null is no point, a NaN is one."""

    name = "Parquet"

    def recognises(self, start: bytes) -> bool:
        return start.startswith(b"PAR1")

    def read(self, files: Sequence[BinaryIO], reading: Reading) -> Iterator[Row | Rewind]:
        return stepped(_rows(files[0], reading), reading)


def _rows(file: BinaryIO, reading: Reading) -> Iterator[Mapping[str, object]]:
    arrow = _pyarrow()
    try:
        for batch in arrow.parquet.ParquetFile(file).iter_batches(_BATCH):
            for row in batch.to_pylist():
                yield flat({name: value for name, value in row.items() if value is not None})
    except (arrow.ArrowException, OSError) as problem:
        raise SourceError(f"`{reading.name}` is cut off or damaged: it is no whole Parquet file") from problem


def _pyarrow() -> Any:
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError("pyarrow", "files") from error


FORMAT = Parquet()
