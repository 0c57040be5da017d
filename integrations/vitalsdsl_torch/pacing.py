"""When a collector is due: by the number of the step, by time, or more often for a while."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Protocol

from vitalsdsl.ground.errors import UsageError
from vitalsdsl_torch.collectors.base import Cadence, Collector, collectors


class Follows(Protocol):
    """What says for how many steps more is to be measured: `Guard`."""

    @property
    def detail_steps(self) -> int:
        """How many of the steps to come are those of which more is to be measured."""


class Pace:
    """The cadences of the collectors, in optimizer steps or as a span of time, and whose detail is asked for."""

    def __init__(self, found: Iterable[type[Collector]], every: Mapping[str, Cadence], log_every: int, clock: Callable[[], float]) -> None:  # fmt: skip
        self._clock = clock
        self._cadences = {one.name: every.get(one.name, log_every if one.every == 1 else one.every) for one in found}
        self._found = tuple(found)
        self._details = [one.name for one in found if one.is_detail]
        self._next_at: dict[str, float] = {}
        self._detail = range(0)

    def check_agreement(self) -> None:
        """Raises UsageError for a collector that ranks have to share, where clocks that differ say when it is due."""
        for one in self._found:
            if (one.told or one.summed) and isinstance(self._cadences[one.name], timedelta):
                raise UsageError(f"with several ranks the cadence of `{one.name}` has to be in steps: clocks differ")

    def due_by_number(self, step: int) -> set[str]:
        """Those due at this step whatever the clock says: at the first, at multiples, and for detail."""
        due = {
            name
            for name, cadence in self._cadences.items()
            if isinstance(cadence, int) and (step == 1 or step % cadence == 0)
        }
        return due.union(self._details) if step in self._detail else due

    def due_by_time(self) -> set[str]:
        """Those whose span is over; the next begins now."""
        now, due = self._clock(), set()
        for name, cadence in self._cadences.items():
            if isinstance(cadence, timedelta) and now >= self._next_at.get(name, -math.inf):
                self._next_at[name] = now + cadence.total_seconds()
                due.add(name)
        return due

    def look_closely(self, first: int, steps: int, every: int) -> None:
        """From this step on, for so many steps, the detail collectors are due at each `every`-th."""
        self._detail = range(first, first + steps, every)

    def is_close(self, step: int) -> bool:
        """Whether that lasts still at this step."""
        return step < self._detail.stop


def check_cadences(every: Mapping[str, Cadence], log_every: int, off: Collection[str]) -> None:
    """Raises UsageError for a collector that there is not, and a cadence that is none."""
    known = collectors()
    for name in [*every, *off]:
        if name not in known:
            raise UsageError(f"there is no collector `{name}`; there are {', '.join(known)}")
    for name, cadence in [*every.items(), ("log_every", log_every)]:
        is_steps = isinstance(cadence, int) and not isinstance(cadence, bool) and cadence >= 1
        is_time = isinstance(cadence, timedelta) and cadence > timedelta(0) and name != "log_every"
        if not is_steps and not is_time:
            raise UsageError(f"the cadence of `{name}` is {cadence!r}: give steps, at least 1, or a timedelta")
