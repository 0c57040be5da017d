"""Logs printed for people: lines that tell metrics, among lines that tell anything else."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, TextIO

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_files.format import Format, Reading
from vitalsdsl_files.lines import lines_of, read_in_part, uncut
from vitalsdsl_files.patterns import pattern
from vitalsdsl_files.rows import stepped

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?(?![\d,])|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?:nan|inf(?:inity)?)(?=m?s\b|(?!\w)))"
"""A number as C and Python print it, also with commas between thousands. What follows it (a unit, a percent sign) does not belong to it."""

ALONE = r"(?![\d:]|\.\d|[eE][-+]?\d|[-/]\d)"
"""After a number: it is not the beginning of a date, a time, a version, or of a part of something."""

_LEADING = pattern(NUMBER, re.IGNORECASE)
_PAIR = pattern(
    rf"(?<![\w./@%\]()-])([A-Za-z][\w./@%()-]*)\s*[:=]\s*({NUMBER}){ALONE}(?! (?:days?|hours?)\b)",
    re.IGNORECASE,
)
_VALUE = pattern(r"[-+]?(?:\d[\d.,]*(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b)")
_COUNTERS = frozenset({"step", "epoch", "iteration"})
_COMPARED = 64
_ESCAPES = pattern(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")


class Lines:
    """The lines of a log without terminal escapes. `cut`: the one at hand is the last, and has no line end; a number that
    it ended in is not in it, and it is `shortened`."""

    def __init__(self, stream: TextIO, reading: Reading) -> None:
        self._stream = stream
        self._reading = reading
        self._before: deque[str] = deque(maxlen=_COMPARED)
        self._text = ""
        self.number = 0
        self.cut = self.shortened = False

    def __iter__(self) -> Iterator[str]:
        too_long = 0
        for line in lines_of(self._stream):
            self.number, self.cut = line.number, not line.whole
            if line.text is None:
                too_long += 1
                continue
            text = _ESCAPES.sub("", line.text) if "\x1b" in line.text or "\b" in line.text else line.text
            self._before.append(self._text)
            self._text = uncut(text) if self.cut else text
            self.shortened = self._text != text
            yield self._text
        if too_long:
            self._reading.notes.append(f"{too_long} lines are too long to be read and are left out")

    def breaks_off(self) -> bool:
        """Whether the line at hand is the beginning of what lines shortly before it said whole."""
        begin = _in_form(self._text)
        return self.cut and any(begin != (form := _in_form(text)) and form.startswith(begin) for text in self._before)


def _in_form(text: str) -> str:
    """A line with one sign for each number and one blank for many."""
    return " ".join(_VALUE.sub("0", text).split())


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
    """The rows, and one note where a last line without a line end tells less than it was going to."""
    lost = False
    for row in rows:
        if lines.cut and _COUNTERS.issuperset(row):
            lost = True
            continue
        lost = lost or lines.shortened
        yield row
    if lost or lines.breaks_off():
        reading.notes.append(read_in_part(lines.number))


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
