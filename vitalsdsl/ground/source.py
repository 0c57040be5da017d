"""Text that a person wrote, and places in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class Source:
    """One policy file as it was read: its name for messages, and its text. With `is_argument` it is what somebody gave
    on the command line, or a file that cannot be read: it has no lines.

    >>> source = Source("a.vitals", "policy p\\nwhen loss > 3 -> red")
    >>> source.position(14)
    (2, 6)
    """

    __slots__ = ("_starts", "is_argument", "name", "text")

    def __init__(self, name: str, text: str, is_argument: bool = False) -> None:
        self.name = name
        self.text = text
        self.is_argument = is_argument
        self._starts: list[int] | None = None

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            starts = [0]
            at = self.text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self.text.find("\n", at + 1)
            self._starts = starts
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, both counted from 1."""
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1) without its line break."""
        starts = self._line_starts()
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r")

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, end)

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.text)} characters)"


class Span:
    """A stretch of a source, as offsets [start, end); what a caret line is drawn from."""

    __slots__ = ("end", "source", "start")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def position(self) -> tuple[int, int]:
        """Line and column of the first character, counted from 1."""
        return self.source.position(self.start)

    def to(self, other: Span) -> Span:
        """From the beginning of this span to the end of another."""
        return Span(self.source, self.start, max(self.end, other.end))

    def __repr__(self) -> str:
        line, column = self.position
        return f"{self.source.name}:{line}:{column}"


class Locator:
    """Where the characters of a parsed text stand in the file: for YAML they are not the same positions."""

    def __init__(self, source: Source, positions: Sequence[int] | None = None) -> None:
        self.source = source
        self.positions = positions

    def span(self, start: int, end: int) -> Span:
        if self.positions is None:
            return Span(self.source, start, end)
        last = self.positions[end - 1] + 1 if end > start else self.positions[start]
        return Span(self.source, self.positions[start], last)


def is_yaml(name: str) -> bool:
    """Whether a file's name says that it holds the YAML form."""
    return name.lower().endswith((".yaml", ".yml"))
