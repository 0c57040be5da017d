"""From the points of a run, in order of time, to its rows and rewinds: the same live and read back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_mlflow.rows import SYSTEM, LoggedPoint, Steps

FAR = 10
"""By how many steps a metric must fall behind itself for the run to have gone back, if it did so at once."""

PAUSE_S = 5.0
"""After so many seconds without a point, by the run's own clock, one step is enough: that is how a resumed run begins."""


class Events:
    """The rows and rewinds of one run.

    MLflow keeps no word of a resume from a checkpoint: the new process logs steps that are there already. So where a
    metric comes again, later, at an earlier step than its newest, the run went back to just before that step, and what
    was logged after it no longer counts. It must be more than 10 steps back, or come after a pause of 5 seconds: a
    smaller step back is one of several writers, or a late word, and is left to what is done about late points. Step 0
    never counts as going back, for it is also what MLflow writes where no step is given. If the metric then jumps ahead
    again at once, two processes log to one run, and nothing is taken for going back from there on. All of this is said.

    With `step_key` the step of a row is the value of that metric; rows without it belong to the step before them.
    """

    def __init__(self, step_key: str | None = None) -> None:
        self._tops: dict[str, int] = {}
        self._row: tuple[str, ...] = ()
        """The names of the newest row that was taken in at once, which has not been noted in `_tops`."""
        self._row_step = -1
        self.steps = Steps(self._take)
        self._step_key = step_key
        self._events: list[Row | Rewind] = []
        self._notes: list[str] = []
        self._last_time = -1
        self._back: list[Any] | None = None
        self._is_shared = False
        self._axis: int | None = None
        self._highest = -1
        """Of all metrics; nothing goes back that comes at it or later."""
        self._plain: set[str] = set()
        """Names that are no system metric's."""

    @property
    def tops(self) -> dict[str, int]:
        """Of each metric the highest step since the run last went back."""
        self._note_row()
        return self._tops

    def _note_row(self) -> None:
        if self._row:
            self._tops.update(dict.fromkeys(self._row, self._row_step))
            self._row = ()

    def is_row(self, values: Mapping[str, float], step: int, timestamp: int) -> bool:
        """Whether points of one step and one time, each of another metric, are the row that they look like. They are
        taken in then; else whoever has them must `add` them."""
        if step < self._highest or self._back is not None or self._step_key is not None:
            return False
        steps = self.steps
        if step == 0 or not steps.explicit:
            return False
        names = tuple(values)
        if names != self._row:
            if not values.keys() <= self._plain:
                return False
            self._note_row()
            self._row = names
        if steps.newest is None or step > steps.newest:
            steps.newest = step
        self._highest = self._row_step = step
        if timestamp > self._last_time:
            self._last_time = timestamp
        return True

    def add(self, points: Sequence[LoggedPoint]) -> list[Row | Rewind]:
        """What points give that come after those before. A row is not continued by the next call's points."""
        self._events = []
        begin, tops = 0, self.tops
        for at, point in enumerate(points):
            key, _, step, timestamp = point
            if key.startswith(SYSTEM):
                continue
            top = tops.get(key, -1)
            if (step < top or self._back is not None) and self._step_key is None and self._goes_back(point):
                self.steps.add(points[begin:at])
                begin = at
                self._go_back(point)
                tops = self.tops
                top = tops.get(key, -1)
            if step > top:
                tops[key] = step
            if timestamp > self._last_time:
                self._last_time = timestamp
        self.steps.add(points[begin:])
        self._highest = max(self.tops.values(), default=-1)
        self._plain.update(point.key for point in points if not point.key.startswith(SYSTEM))
        return self._events

    def go_on(self) -> None:
        """The run is resumed in this process, maybe further back: whoever resumes it says what that means."""
        self.tops.clear()
        self._back = None
        self.steps.go_on()

    def notes(self) -> tuple[str, ...]:
        """What was noticed since the last call."""
        found = (*self.steps.notes, *self._notes)
        self.steps.notes.clear()
        self._notes.clear()
        return found

    def _goes_back(self, point: LoggedPoint) -> bool:
        if self._back is not None and self._back[0] == point.key:
            if point.step > self._back[1] and not self._is_shared:
                self._is_shared = True
                self._notes.append(
                    f"two processes log `{point.key}` to this run: a step that goes back is not taken for a resume any more"
                )
            self._back = None
        top = self.tops.get(point.key)
        if top is None or not 0 < point.step < top or point.timestamp < self._last_time or self._is_shared:
            return False
        return top - point.step > FAR or point.timestamp - self._last_time >= 1000 * PAUSE_S

    def _go_back(self, point: LoggedPoint) -> None:
        to = point.step - 1
        self._back = [point.key, self.tops[point.key]]
        self._notes.append(
            f"the run went back from step {self.tops[point.key]} of `{point.key}` to {point.step}: "
            f"what came after step {to} no longer counts"
        )
        self._tops = {key: min(top, to) for key, top in self.tops.items()}
        self.steps.back_to(to)
        self._events.append(Rewind(to))

    def _take(self, values: Mapping[str, float], step: int, time: float) -> None:
        if self._step_key is None:
            self._events.append(Row(step, values, time))
            return
        said = values.get(self._step_key, math.nan)
        if math.isfinite(said) and said.is_integer():
            before, self._axis = self._axis, int(said)
            if before is not None and before - self._axis > FAR:
                self._events.append(Rewind(self._axis - 1))
                self._notes.append(f"`{self._step_key}` went back from {before} to {self._axis}: the run goes on there")
        if self._axis is not None:
            rest = {name: value for name, value in values.items() if name != self._step_key}
            self._events.append(Row(self._axis, rest, time))

    def save(self) -> dict[str, Any]:
        """All but `tops`, as plain data."""
        return {
            "steps": self.steps.save(),
            "last": self._last_time,
            "back": self._back,
            "shared": self._is_shared,
            "axis": self._axis,
        }

    def load(self, saved: Mapping[str, Any], tops: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Go on after the points of these numbers."""
        self.steps.load(saved["steps"], counts)
        self._last_time, self._back, self._is_shared = saved["last"], saved["back"], saved["shared"]
        self._axis, self._tops, self._row = saved["axis"], dict(tops), ()
        self._highest = max(self.tops.values(), default=-1)
