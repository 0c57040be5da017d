"""The lines of a log, and the account of those that could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from vitalsdsl.ground.errors import SourceError
from vitalsdsl_files.format import Reading

LONGEST = 16 * 1024 * 1024
"""A longer line is not held in memory: it counts as one that cannot be read. In characters."""

BLOCK = 256 * 1024
"""How much of a log is taken apart into lines at once, in characters."""

_AROUND = " \t\r\n\0\ufeff"
_AT_AN_END = tuple("0123456789.")
_OF_NUMBERS = "0123456789.,+-"


@dataclass(frozen=True)
class Line:
    """One line that is not empty. `text` is None where it is too long; `whole`: it ends in a line end."""

    number: int
    text: str | None
    whole: bool


def lines_of(stream: TextIO) -> Iterator[Line]:
    """The lines that are not empty, with their numbers from 1."""
    number = 0
    while text := stream.readline(LONGEST):
        number += 1
        whole = text[-1] == "\n"
        if not whole and len(text) >= LONGEST:
            yield Line(number, None, _pass_over(stream))
        elif (line := line_of(number, text, whole)) is not None:
            yield line


def line_of(number: int, text: str | None, whole: bool) -> Line | None:
    """A line; None where it is empty."""
    if text is None:
        return Line(number, None, whole)
    stripped = text.strip(_AROUND)
    if not stripped:
        return None
    return Line(number, stripped if "\t" not in text else text.strip("\r\n\0\ufeff"), whole)


def blocks_of(stream: TextIO) -> Iterator[tuple[int, Sequence[str | None], bool]]:
    """All lines as they stand, many at once: the number of the first, the lines without their ends (None: too long to be
    held), and whether the last of them ends in a line end."""
    number, rest = 1, ""
    while text := stream.read(BLOCK):
        *ended, rest = (rest + text).split("\n")
        if ended:
            is_long = max(map(len, ended)) >= LONGEST
            yield number, [None if len(one) >= LONGEST else one for one in ended] if is_long else ended, True
            number += len(ended)
        if len(rest) >= LONGEST:
            yield number, [None], _pass_over(stream)
            number, rest = number + 1, ""
    if rest:
        yield number, [rest], False


def uncut(text: str) -> str:
    """A text that may break off anywhere, without the number that it ends in: `1.2` may have been going to be `1.234`.

    A unit or a bracket behind a number shows that it is whole; `nan` and `inf` cannot become another number.

    >>> uncut("loss: 2.5, lr: 1.5e-0"), uncut("mfu 14.2%"), uncut("loss nan")
    ('loss: 2.5, lr: ', 'mfu 14.2%', 'loss nan')
    """
    kept = text.rstrip(_OF_NUMBERS)
    if kept[-1:] in ("e", "E") and kept[-2:-1] in _AT_AN_END:
        kept = kept[:-1].rstrip(_OF_NUMBERS)
    return kept if any("0" <= sign <= "9" for sign in text[len(kept) :]) else text


def _pass_over(stream: TextIO) -> bool:
    while text := stream.readline(LONGEST):
        if text[-1] == "\n":
            return True
    return False


def left_out(number: int) -> str:
    """What is said of a last line, which has no line end, that tells nothing for that."""
    return f"the last line, {number}, is cut off and left out"


def read_in_part(number: int) -> str:
    """What is said of a last line without a line end of which some is read."""
    return f"the last line, {number}, has no line end: what may be cut off in it is not read"


class Tally:
    """Counts the lines of a log that could and that could not be read; `expected` is what each should have been."""

    def __init__(self, reading: Reading, expected: str) -> None:
        self._reading = reading
        self._expected = expected
        self._good = 0
        self._bad = 0
        self._first_bad: list[int] = []

    def good(self, count: int = 1) -> None:
        self._good += count

    def bad(self, line: Line) -> None:
        """A line that cannot be read. The last one, without a line end, is one that was still being written."""
        if not line.whole:
            self._reading.notes.append(left_out(line.number))
            return
        self._bad += 1
        if len(self._first_bad) < 3:
            self._first_bad.append(line.number)

    def finish(self) -> None:
        """Says which lines were left out. Raises SourceError where they are more than half."""
        if not self._bad:
            return
        if self._bad > self._good:
            raise SourceError(
                f"`{self._reading.name}` cannot be read: {self._bad} of {self._bad + self._good} lines are no "
                f"{self._expected}, the first is line {self._first_bad[0]}"
            )
        numbers = ", ".join(map(str, self._first_bad))
        more = self._bad - len(self._first_bad)
        if self._bad == 1:
            note = f"line {numbers} is no {self._expected} and is left out"
        else:
            note = f"lines {numbers}{f' and {more} more' if more else ''} are no {self._expected} and are left out"
        self._reading.notes.append(note)
