"""What one policy gives on one run: small enough to be kept for each of ten thousand."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition

Stride = tuple[int, int, int]
"""Steps at equal distances: the first, the distance, how many."""


@dataclass(frozen=True)
class Change:
    """A transition without its message and values."""

    rule: str
    member: str | None
    attempt: int
    step: int
    onset: int | None
    from_: Level
    to: Level
    reason: str

    @classmethod
    def of(cls, t: Transition) -> Change:
        return cls(t.rule, t.member, t.attempt, t.step, t.onset, t.from_, t.to, t.reason)

    @property
    def subject(self) -> str:
        """The rule, with its member in brackets where it has one."""
        return self.rule if self.member is None else f"{self.rule}[{self.member}]"

    def is_alarm(self, level: Level) -> bool:
        """Whether the rule comes to this level or above from below it. What a run's going back undoes or restores is
        none: it was one when it first came."""
        return self.from_ < level <= self.to and self.reason != "superseded"

    def rises_to(self, level: Level) -> bool:
        """Whether the rule gets worse, and thereby stands at this level or above: an alarm, or one that grows."""
        return self.from_ < self.to and self.to >= level and self.reason != "superseded"


class Steps:
    """The steps at which a run logged something, in its order; those after it went back count again."""

    def __init__(self, strides: Iterable[Stride] = ()) -> None:
        self.strides: list[Stride] = [(first, distance, count) for first, distance, count in strides]

    def add(self, step: int) -> None:
        if self.strides:
            first, distance, count = self.strides[-1]
            gap = step - (first + distance * (count - 1))
            if gap > 0 and (count == 1 or gap == distance):
                self.strides[-1] = (first, gap, count + 1)
                return
        self.strides.append((step, 1, 1))

    def __len__(self) -> int:
        return sum(count for _, _, count in self.strides)

    def within(self, low: float, high: float) -> int:
        """How many lie in a stretch, both ends included.

        >>> steps = Steps()
        >>> for step in (0, 10, 20, 30, 31, 32):
        ...     steps.add(step)
        >>> steps.strides, len(steps), steps.within(15, 31)
        ([(0, 10, 4), (31, 1, 2)], 6, 3)
        """
        return sum(_within(stride, low, high) for stride in self.strides)

    @property
    def first(self) -> int:
        return min(first for first, _, _ in self.strides)

    @property
    def last(self) -> int:
        return max(first + distance * (count - 1) for first, distance, count in self.strides)


def _within(stride: Stride, low: float, high: float) -> int:
    first, distance, count = stride
    last = first + distance * (count - 1)
    if low > last or high < first:
        return 0
    begin = 0 if low <= first else -int((first - low) // distance)
    end = count - 1 if high >= last else int((high - first) // distance)
    return max(0, end - begin + 1)


@dataclass(frozen=True)
class RunOutcome:
    """One run under one policy.

    `run` is its place among all that were read: a path (with `#2` for the second run in a file) or its id with its
    tracker; `name` is what its reader calls it, `title` what people do. `rows` are what was logged, `blind` the rules of
    which this run does not log all that they read, `level` the highest level at its end. `changes` and `steps` are
    unpacked each time they are asked for.
    """

    run: str
    name: str
    title: str
    url: str
    rows: int
    level: Level
    blind: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    packed: bytes = field(default=b"", repr=False)

    @classmethod
    def made(cls, changes: Iterable[Change], steps: Steps, **known: Any) -> RunOutcome:
        listed = [(c.rule, c.member, c.attempt, c.step, c.onset, c.from_, c.to, c.reason) for c in changes]
        text = json.dumps([listed, steps.strides], separators=(",", ":"))
        return cls(**known, packed=zlib.compress(text.encode("utf-8", "surrogatepass"), 1))

    def _unpacked(self) -> Any:
        return json.loads(zlib.decompress(self.packed).decode("utf-8", "surrogatepass"))

    @property
    def changes(self) -> list[Change]:
        """All changes of level, in order."""
        return [
            Change(rule, member, attempt, step, onset, Level(before), Level(to), reason)
            for rule, member, attempt, step, onset, before, to, reason in self._unpacked()[0]
        ]

    @property
    def steps(self) -> Steps:
        return Steps(self._unpacked()[1])

    @property
    def label(self) -> str:
        """What people read for it."""
        return f"{self.title} ({self.run})" if self.title and self.title not in (self.run, self.name) else self.run

    @property
    def worst(self) -> Level:
        """The highest level that any rule came to."""
        return max((change.to for change in self.changes), default=Level.GREEN)

    def alarms(self, level: Level) -> Iterator[Change]:
        """Where a rule came to this level or above from below it."""
        return (change for change in self.changes if change.is_alarm(level))

    def as_record(self) -> list[Any]:
        """As plain data for a disk, without `packed`."""
        return [self.run, self.name, self.title, self.url, self.rows, int(self.level), self.blind, self.notes]

    @classmethod
    def from_record(cls, record: list[Any], packed: bytes) -> RunOutcome:
        run, name, title, url, rows, level, blind, notes = record
        return cls(run, name, title, url, rows, Level(level), tuple(blind), tuple(notes), packed)
