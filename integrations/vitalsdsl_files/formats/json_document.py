"""A JSON document: a list of rows, columns of numbers (a Keras `history`), or one row (`wandb-summary.json`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TextIO

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl_files.format import Format, Reading
from vitalsdsl_files.json_text import parse
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.rows import STEP_KEYS, flat, stepped

_LIST = pattern(r"\s*\[\s*\{")
_INSIDE = pattern(r'"\s*:\s*\[\s*(?:\{|[-+\dN"])|"_step"\s*:')
_TRAINING = pattern(r"loss|acc|reward|error|score", re.IGNORECASE)


class JsonDocument(Format):
    """The rows of a list of objects, which may stand under the one key that holds such a list; or the columns of an
    object of lists, row by row; or one object with a `_step`, as one row.

    Columns without a step are numbered, the first is step 1, where a name among them is that of a metric of a training
    (`loss`, `acc`, …). A list of anything else is no log.
    """

    name = "JSON document"
    priority = -7

    def recognises(self, head: str) -> bool:
        text = head.lstrip("\ufeff \t\r\n")
        return _LIST.match(text) is not None or (text.startswith("{") and _INSIDE.search(text) is not None)

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        try:
            document = parse(stream.read().strip("\ufeff\0 \t\r\n"))
        except ValueError as problem:
            raise SourceError(f"`{reading.name}` is cut off or damaged: it is not whole JSON") from problem
        return stepped(_rows(document, reading), reading)


def _rows(document: object, reading: Reading) -> list[Mapping[str, object]]:
    if isinstance(document, list):
        return [flat(row) for row in document if isinstance(row, dict)]
    assert isinstance(document, dict)
    columns = {name: cells for name, cells in document.items() if _is_column(cells)}
    if columns:
        return _by_columns(columns, reading)
    lists = [
        name for name, value in document.items() if isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    if len(lists) == 1:
        reading.notes.append(f"the rows are those of `{lists[0]}`")
        return [flat(row) for row in document[lists[0]] if isinstance(row, dict)]
    if lists:
        listed = ", ".join(f"`{name}`" for name in lists)
        raise SourceError(
            f"`{reading.name}` has several lists of rows ({listed}): keep one of them in a file of its own"
        )
    if "_step" not in document:
        raise SourceError(f"`{reading.name}` holds no list of rows")
    return [flat(document)]


def _is_column(cells: object) -> bool:
    return isinstance(cells, list) and len(cells) > 0 and all(c is None or number(c) is not None for c in cells)


def _by_columns(columns: Mapping[str, list[object]], reading: Reading) -> list[Mapping[str, object]]:
    rows = [
        {name: cell for name, cell in zip(columns, cells, strict=True) if cell is not None}
        for cells in zip_longest(*columns.values())
    ]
    if len({len(cells) for cells in columns.values()}) > 1:
        reading.notes.append("the columns differ in length: each is read from the first row on")
    has_step = reading.step_key in columns or any(name.lower() in STEP_KEYS for name in columns)
    if not has_step and any(_TRAINING.search(name) for name in columns):
        reading.notes.append("the columns have no step: their rows are counted, and the first is step 1")
        rows = [{"step": at + 1, **row} for at, row in enumerate(rows)]
    return list(rows)


FORMAT = JsonDocument()
