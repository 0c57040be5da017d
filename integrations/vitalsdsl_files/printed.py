"""Logs printed for people: lines that tell metrics, among lines that tell anything else."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, TextIO

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_files.format import Format, Reading
from vitalsdsl_files.lines import lines_of
from vitalsdsl_files.rows import stepped

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?(?![\d,])|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?:nan|inf(?:inity)?)(?=m?s\b|(?!\w)))"
"""A number as C and Python print it, also with commas between thousands. What follows it (a unit, a percent sign) does not belong to it."""

ALONE = r"(?![\d:]|\.\d|[eE][-+]?\d|[-/]\d)"
"""After a number: it is not the beginning of a date, a time, a version, or of a part of something."""

_LEADING = re.compile(NUMBER, re.IGNORECASE)
_PAIR = re.compile(
    rf"(?<![\w./@%\]()-])([A-Za-z][\w./@%()-]*)\s*[:=]\s*({NUMBER}){ALONE}(?! (?:days?|hours?)\b)",
    re.IGNORECASE,
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")


class Lines:
    """The lines of a log without terminal escapes. `cut`: the one at hand is the last, and has no line end."""

    def __init__(self, stream: TextIO, reading: Reading) -> None:
        self._stream = stream
        self._reading = reading
        self.number = 0
        self.cut = False

    def __iter__(self) -> Iterator[str]:
        too_long = 0
        for line in lines_of(self._stream):
            self.number, self.cut = line.number, not line.whole
            if line.text is None:
                too_long += 1
            else:
                yield _ESCAPES.sub("", line.text) if "\x1b" in line.text or "\b" in line.text else line.text
        if too_long:
            self._reading.notes.append(f"{too_long} lines are too long to be read and are left out")


class Printed(Format):
    """The base of such formats. `marks` finds one of its lines, at any place in a log."""

    priority = -5
    anywhere = True
    marks: ClassVar[re.Pattern[str]]

    def recognises(self, head: str) -> bool:
        return self.marks.search(head) is not None

    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        lines = Lines(stream, reading)
        return stepped(_whole(self.rows(lines, reading), lines, reading), reading)

    @abstractmethod
    def rows(self, lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
        """What the lines tell, in their order: names, the step's among them, and values."""


def _whole(rows: Iterable[Mapping[str, object]], lines: Lines, reading: Reading) -> Iterator[Mapping[str, object]]:
    """The rows, but for one of a last line that breaks off before all is there that such a row has told before."""
    told: dict[str, frozenset[str]] = {}
    for row in rows:
        kind = next((name for name in row if name not in ("step", "epoch", "iteration")), "")
        names = frozenset(row)
        if lines.cut and names < told.get(kind, frozenset()):
            reading.notes.append(f"the last line, {lines.number}, is cut off and left out")
            continue
        told[kind] = names
        yield row


def to_float(text: str) -> float:
    """The number that a NUMBER is.

    >>> to_float("2,097,152"), to_float("-inf")
    (2097152.0, -inf)
    """
    return float(text.replace(",", ""))


def pairs(text: str) -> dict[str, float]:
    """The numbers of a text with names before them, as `name: number` or `name=number`. A time of day is no number.

    >>> pairs("lr: 1.5e-03, eta: 0:56:09, loss_cls: nan  max_mem=2345M, note: 3 days")
    {'lr': 0.0015, 'loss_cls': nan, 'max_mem': 2345.0}
    """
    return {name: to_float(value) for name, value in _PAIR.findall(text) if name.lower() != "eta"}


def leading(text: str) -> float | None:
    """The number that a text begins with, or None.

    >>> leading("12.5TFLOPS"), leading("nanms"), leading("1.0E-04"), leading("information")
    (12.5, nan, 0.0001, None)
    """
    try:
        return float(text)
    except ValueError:
        found = _LEADING.match(text.lstrip())
    return to_float(found[0]) if found else None
