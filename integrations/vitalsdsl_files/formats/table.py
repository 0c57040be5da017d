"""Tables: CSV, TSV and their like, with one line of column names."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import TextIO

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl_files.format import Format, Pieces, Reading, together
from vitalsdsl_files.lines import Tally, left_out, lines_of, read_in_part, uncut
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.rows import STEP_KEYS, in_pieces, stepped

_DELIMITERS = ",\t;|"
_LOOKED_AT = 20
_COMMA = pattern(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_NO_NUMBER = "is no number here, nor are others like it"
_STRAIGHT = str.maketrans("“”„‟", '""""')


class Table(Format):
    """Column names, then rows. An empty cell was not logged in that row; `nan` is a point that is NaN.

    The delimiter is the one of comma, tab, semicolon and bar that the first line has most of. Blanks round names and
    cells do not count. Names that come again further down, the same or others, hold for what follows them.
    """

    name = "CSV"
    priority = -10

    def recognises(self, head: str) -> bool:
        lines = [line for line in head.lstrip("\ufeff").splitlines() if line.strip(" \t\0") and line[:1] != "#"]
        if not lines or lines[0].lstrip().startswith(("{", "[", "<")):
            return False
        delimiter = _delimiter(lines[0])
        names = _cells(lines[0], delimiter)
        if len(names) < 2:
            return False
        rows = [_cells(line, delimiter) for line in lines[1 : _LOOKED_AT + 1]]
        if len(rows) > 1 and not head.endswith(("\n", "\r")) and len(lines) <= _LOOKED_AT + 1:
            rows.pop()
        if not rows:
            return any(name.lower() in STEP_KEYS for name in names)
        data = [cells for cells in rows if not _are_names(cells, names)]
        return sum(len(cells) == len(names) and _has_number(cells) for cells in data) * 2 >= max(len(data), 1)

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        return stepped(_rows(stream, reading), reading)

    def pieces(self, stream: TextIO, reading: Reading) -> Pieces:
        return in_pieces(together(_rows(stream, reading)), reading)


def _rows(stream: TextIO, reading: Reading) -> Iterator[dict[str, object]]:
    tally = Tally(reading, "row of as many cells as there are column names")
    names: list[str] = []
    delimiter, cut_off = ",", ""
    for line in lines_of(stream):
        if line.text is None:
            tally.bad(line)
            continue
        if not names:
            if line.text[:1] != "#":
                delimiter = _delimiter(line.text)
                names = _names(_cells(line.text, delimiter), reading)
            continue
        cells = _cells(line.text, delimiter)
        if not line.whole and (cut := _cut(cells, line.text, len(names))) is not None:
            row: dict[str, object] = {
                name: cell for name, cell in zip(names, cells[:cut], strict=False) if cell and name
            }
            is_read = len(row) > 1 and not any(_may_be_step(name, reading) for name in names[cut:])
            cut_off = read_in_part(line.number) if is_read else left_out(line.number)
            if is_read:
                yield row
        elif len(cells) != len(names) and not _are_names(cells, names):
            tally.bad(line)
        elif _are_names(cells, names):
            if cells != names:
                reading.notes.append(f"line {line.number} names other columns, which hold from there on")
            names = cells
        else:
            tally.good()
            if line.number <= _LOOKED_AT and delimiter != ",":
                _tell_of_commas(names, cells, reading)
            yield {name: cell for name, cell in zip(names, cells, strict=True) if cell and name}
    if cut_off:
        reading.notes.append(cut_off)
    tally.finish()


def _tell_of_commas(names: Sequence[str], cells: Sequence[str], reading: Reading) -> None:
    """Numbers with a decimal comma are none here, as they might be thousands: once, for the first of them."""
    found = next(((name, cell) for name, cell in zip(names, cells, strict=True) if _COMMA.fullmatch(cell)), None)
    if found is not None and not any(_NO_NUMBER in note for note in reading.notes):
        name, cell = found
        reading.notes.append(f"`{cell}` under `{name}` {_NO_NUMBER}: write {cell.replace(',', '.')}")


def _cut(cells: Sequence[str], line: str, columns: int) -> int | None:
    """The place of the cell in which a line without a line end may break off; None where it has all that it could."""
    is_whole = (line.endswith('"') and line.count('"') % 2 == 0) or (
        cells[-1:] != [""] and uncut(cells[-1]) == cells[-1]
    )
    return len(cells) - 1 if len(cells) < columns or (len(cells) == columns and not is_whole) else None


def _may_be_step(name: str, reading: Reading) -> bool:
    return name == reading.step_key or (reading.step_key is None and name.lower() in STEP_KEYS)


def _names(cells: list[str], reading: Reading) -> list[str]:
    if sum(number(cell) is not None for cell in cells) * 2 > len(cells):
        raise SourceError(
            f"`{reading.name}` has no line of column names: its first line is `{_short(cells)}`; "
            "write one above it, such as `step,loss`"
        )
    for name in dict.fromkeys(cell for cell in cells if cell and cells.count(cell) > 1):
        reading.notes.append(f"{cells.count(name)} columns are called `{name}`: the last one that is not empty counts")
    return cells


def _are_names(cells: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a line further down is one of column names again: no number in it, and a name that was there before."""
    return len(cells) > 1 and all(cells) and not _has_number(cells) and any(cell in names for cell in cells)


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _cells(line: str, delimiter: str) -> list[str]:
    line = line.translate(_STRAIGHT) if not line.isascii() else line
    if '"' in line:
        try:
            return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]
        except csv.Error:
            return []
    return [cell.strip() for cell in line.split(delimiter)]


def _has_number(cells: Sequence[str]) -> bool:
    return any(number(cell) is not None for cell in cells)


def _short(cells: Sequence[str]) -> str:
    text = ",".join(cells)
    return text if len(text) <= 40 else f"{text[:39]}…"


FORMAT = Table()
