"""From MLflow's points to the steps of a run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

SYSTEM = "system/"


class LoggedPoint(NamedTuple):
    """What MLflow stores of one logged value; the time is in milliseconds."""

    key: str
    value: float
    step: int
    timestamp: int


_when = operator.itemgetter(3, 2)  # the time, then the step


def in_time(points: Iterable[LoggedPoint]) -> list[LoggedPoint]:
    """Points by time and step, as they will be found again."""
    return sorted(points, key=_when)


Take = Callable[[dict[str, float], int, float], object]
"""Where the values of a step and their time go."""


class Steps:
    """Which step each point of one run belongs to. A step closes when a point of a later one arrives.

    MLflow gives step 0 to a point that is logged without a step. Where a metric comes again at step 0 and no other step
    was ever logged, the script logs without steps: then the n-th point of a metric counts at step n - 1, which is said
    once. System metrics have a counter of their own, so they count at the training step that is open.
    """

    def __init__(self, take: Take) -> None:
        self.take = take
        self.notes: list[str] = []
        self.newest: int | None = None
        """The step that is open."""
        self.counts: dict[str, int] = {}
        """How many points of each metric there were, but for those of rows that were taken in at once."""
        self._stepless = False
        self.explicit = False
        """Whether a step was given: then how many points a metric has had tells nothing."""

    def go_on(self) -> None:
        """The run is resumed, maybe further back: which step is open its own first point says, no system metric."""
        self.newest = None

    def add(self, points: Iterable[LoggedPoint]) -> None:
        """The points of one call, by time and step, as they will be found again; those of one step go on together."""
        group: dict[str, float] = {}
        group_step: int | None = None
        time = 0.0
        for key, value, at, timestamp in in_time(points):
            step = self._step(key, at)
            if step is None:
                continue
            if group_step is not None and (step != group_step or key in group):
                self.take(group, group_step, time)
                group = {}
            group_step = step
            group[key] = value
            time = timestamp / 1000
        if group_step is not None and group:
            self.take(group, group_step, time)

    def back_to(self, step: int) -> None:
        """The run went back: a system metric counts at this step until a later one comes."""
        self.newest = step

    def save(self) -> list[Any]:
        """What is remembered but for the counts, which are those of the points that were given: plain data."""
        return [self.newest, self._stepless, self.explicit]

    def load(self, saved: Sequence[Any], counts: Mapping[str, int]) -> None:
        """Go on after so many points of each metric."""
        self.newest, self._stepless, self.explicit = saved
        self.counts = dict(counts)

    def _step(self, key: str, at: int) -> int | None:
        if key.startswith(SYSTEM):
            return self.newest
        count = self.counts.get(key, 0)
        self.counts[key] = count + 1
        if at != 0:
            self.explicit, self._stepless = True, False
        elif count and not self.explicit:
            if not self._stepless:
                self._stepless = True
                self.notes.append("the run logs without steps: the n-th point of a metric counts at step n - 1")
        step = count if self._stepless else at
        if self.newest is None or step > self.newest:
            self.newest = step
        return step
