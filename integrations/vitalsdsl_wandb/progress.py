"""How far a run on the server has been read, small whatever its length: the cursor of its feed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vitalsdsl.ground.errors import StateError

RE_READ = 8
"""The newest rows, which each reading at the end of a run asks for again: what changed or came late is seen by them."""

_VERSION = 1


@dataclass(frozen=True)
class Mark:
    """A row that has been given: W&B's step, its time, the step that rules saw, and how many rows came before it."""

    step: int
    time: float | None
    at: int
    count: int

    def is_same(self, times: list[float | None]) -> bool:
        """Whether one of the rows at its step now is this one: another process logs at another time."""
        return any(self.time is None or time is None or abs(time - self.time) < 0.5 for time in times)


@dataclass
class Progress:
    """Where reading goes on.

    `marks` are the newest rows and, further back, ever fewer: a history that was cut or written anew is taken up again
    behind the newest of them that still stands. `kinds` is how far each kind of row (by the names in it) has come on
    the axis. `rewinds` are all that were given: to which step of the rules, and behind which of W&B's. The service
    forgets what it cut off, so whoever reads anew from the begin is told of them again: `due` is the next of them.
    """

    marks: list[Mark] = field(default_factory=list)
    count: int = 0
    width: int = 256
    axis: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    rewinds: list[list[int]] = field(default_factory=list)
    due: int = 0
    is_at_end: bool = False
    is_ending: bool = False
    whole_from: int = 0
    """W&B's step from which on no mark has been dropped, after a rewind to an older one."""
    doubts: int = 0
    """How many readings in turn found the server at odds with itself."""
    conceded: int | None = None
    """A last step whose row never came."""

    @property
    def next(self) -> int:
        """W&B's step behind the newest row."""
        return self.marks[-1].step + 1 if self.marks else 0

    @property
    def tail(self) -> list[Mark]:
        """The newest rows, between which there is none that was given and has no mark."""
        return [mark for mark in self.marks[-RE_READ:] if mark.step >= self.whole_from]

    @property
    def known(self) -> set[int]:
        return {mark.step for mark in self.tail}

    def add(self, mark: Mark) -> None:
        """A row is given. One that came late takes its place among the others."""
        at = len(self.marks)
        while at and self.marks[at - 1].step > mark.step:
            at -= 1
        self.marks.insert(at, mark)
        self.count += 1

    def thin(self) -> None:
        """Keep the first row, the newest, and between them rows at distances that about double."""
        kept = self.marks[: -RE_READ - 1 : -1]
        reach = RE_READ
        for mark in reversed(self.marks[1:-RE_READ]):
            if self.count - mark.count >= 2 * reach:
                kept.append(mark)
                reach = self.count - mark.count
        if len(self.marks) > RE_READ:
            kept.append(self.marks[0])
        self.marks = kept[::-1]

    def back_to(self, mark: Mark | None) -> int:
        """Forget what was given after a row (None: all of it); the step to which rules go back."""
        at = mark.at if mark is not None else self.marks[0].at - 1
        self.marks = self.marks[: self.marks.index(mark) + 1] if mark is not None else []
        self.count = mark.count + 1 if mark is not None else 0
        self.whole_from = mark.step if mark is not None else 0
        self.is_at_end = self.is_ending = False
        self.doubts, self.conceded = 0, None
        self.rewound(at)
        return at

    def rewound(self, at: int) -> None:
        """The run went back to a step of the rules, behind the newest row."""
        if self.axis.get("newest") is not None:
            self.axis["newest"] = min(self.axis["newest"], at)
        self.kinds = {kind: min(step, at) for kind, step in self.kinds.items()}
        self.rewinds.append([at, self.next - 1])
        self.due = len(self.rewinds)

    def take_due(self, before: float) -> list[int]:
        """The rewinds that an earlier reading gave before W&B's step `before`: to which steps."""
        places = [min(behind for _, behind in self.rewinds[at:]) for at in range(self.due, len(self.rewinds))]
        count = sum(behind < before for behind in places)
        found = [at for at, _ in self.rewinds[self.due : self.due + count]]
        self.due += count
        return found

    @property
    def is_anew(self) -> bool:
        """Whether rewinds of an earlier reading are still to come."""
        return self.due < len(self.rewinds)

    def cursor(self) -> dict[str, Any]:
        """As plain data."""
        self.thin()
        marks = [[mark.step, mark.time, mark.at, mark.count] for mark in self.marks]
        return {**asdict(self), "marks": marks, "version": _VERSION}

    @staticmethod
    def of(cursor: Mapping[str, Any]) -> Progress:
        """What a cursor says. Raises StateError where it is none of ours."""
        try:
            given = dict(cursor)
            if given.pop("version") != _VERSION:
                raise StateError("this cursor was written by another version")
            marks = [Mark(int(step), time, int(at), int(count)) for step, time, at, count in given.pop("marks")]
            rewinds = [[int(at), int(behind)] for at, behind in given.pop("rewinds")]
            return Progress(marks=marks, rewinds=rewinds, **given)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError("this cursor is damaged, or not that of a run of W&B") from error
