"""What a log format is, to the reader: how it is recognised and how its rows are read. Most are text, some are binary."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, ClassVar, TextIO, TypeVar

from vitalsdsl.ground.points import Rewind, Row

if TYPE_CHECKING:
    from vitalsdsl.nodes.table import Piece

Item = TypeVar("Item")

Pieces = Iterator["Piece | Sequence[Row | Rewind]"]
"""Rows and rewinds, many at once."""

LAST_RESORT = -10

_TOGETHER = 2_000
"""How many rows go on together."""


@dataclass
class Reading:
    """One reading of one log: what the format is told, and what it says back.

    `name` is what messages call the log; `step_key` the key that the user named, or None. `live`: rows are wanted as
    they come, so nothing may be read ahead of the first one. The format sets the rest before its first row where it
    can: `notes`, what it decided, one sentence each; `total_steps`; and `infers`, whether a step that goes back may be
    taken for a rewind or a new run.
    """

    name: str
    step_key: str | None = None
    live: bool = False
    total_steps: float = math.nan
    infers: bool = True
    notes: list[str] = field(default_factory=list)


class Format(ABC):
    """A log format. One object of it, called `FORMAT` in a module of `formats` or named by an entry point, adds it."""

    name: ClassVar[str]
    priority: ClassVar[int] = 0
    """Of several formats that recognise a log, the one with the highest priority is tried first. One below
    LAST_RESORT is tried only where no other is found anywhere."""
    live: ClassVar[bool] = False
    """Whether rows can be read from a pipe as they are written."""
    anywhere: ClassVar[bool] = False
    """Whether its rows may begin far into a log, after text of other kinds: `recognises` is shown later pieces too."""

    @abstractmethod
    def recognises(self, head: str) -> bool:
        """Whether a log that begins so is of this format. `head` may end anywhere in a line."""

    @abstractmethod
    def read(self, stream: TextIO, reading: Reading) -> Iterator[Row | Rewind]:
        """The rows and rewinds of a log, in its order. Raises SourceError where it cannot be read."""

    def pieces(self, stream: TextIO, reading: Reading) -> Pieces:
        """The same, many at once: as columns, where that is quicker, or as they are. It is asked for of long logs."""
        return together(self.read(stream, reading))


def together(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Rows, or what else comes one by one, many at once."""
    return iter(lambda: list(islice(items, _TOGETHER)), [])


class BinaryFormat(ABC):
    """A log format that is no text. It is added as a `Format` is, and looked for before any of those."""

    name: ClassVar[str]
    joins: ClassVar[bool] = False
    """Whether all the files of it in one folder are one log."""

    @abstractmethod
    def recognises(self, start: bytes) -> bool:
        """Whether a file that begins so is of this format."""

    @abstractmethod
    def read(self, files: Sequence[BinaryIO], reading: Reading) -> Iterator[Row | Rewind]:
        """The rows and rewinds of a log: of one file, or of all that were joined. Raises SourceError where it cannot be
        read."""
