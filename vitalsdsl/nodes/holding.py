"""`for 20 steps`: whether a condition has held for its span."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.nodes.base import Clock


class Span:
    """What a `for` asks: all of its extents, or k of the last n known evaluations; nothing where it is absent."""

    __slots__ = ("counts", "extents", "k", "n", "steps")

    def __init__(self, extents: Sequence[Extent] = (), k: int = 0, n: int = 0) -> None:
        self.extents = tuple(extents)
        self.k = k
        self.n = n
        self.counts = any(extent.unit == SAMPLES for extent in self.extents)
        """Whether the evaluations themselves are counted."""
        sizes = [] if self.counts else [math.ceil(each.size) for each in self.extents if each.unit == STEPS]
        self.steps = max(sizes, default=0)
        """So many steps it lasts at least; 0 where each evaluation may be the one that matters."""

    def __repr__(self) -> str:
        return f"Span({self.extents!r}, {self.k!r}, {self.n!r})"

    def doubled(self) -> list[Extent]:
        """Twice each, for how long a reference may stay frozen; k of n counts as n samples."""
        if self.n:
            return [Extent(2 * self.n, SAMPLES)]
        return [Extent(2 * e.size, e.unit) for e in self.extents]

    def opposite(self) -> Span:
        """What clears a clause with this `for` unless it says otherwise."""
        return Span(k=max(self.k, self.n - self.k + 1), n=self.n) if self.n else self


_NONE: list[bool] = []
"""What a span that does not count evaluations remembers of them."""


class Moment:
    """A step with its time and counters, to measure from."""

    __slots__ = ("counters", "step", "time")

    def __init__(self, step: int, time: float, clock: Clock) -> None:
        self.step = step
        self.time = time
        counters = clock.counters
        self.counters = (counters.get("epoch", math.nan), counters.get("tokens", math.nan))

    def since(self, unit: str, step: int, time: float, clock: Clock) -> float:
        """How much of a unit lies between (samples are counted by whoever asks)."""
        if unit == STEPS:
            return step - self.step
        if unit == TIME:
            return time - self.time
        now = clock.counter(unit if unit == "tokens" else "epoch")
        return now - self.counters[unit == "tokens"]

    def save(self) -> list[Any]:
        return [self.step, self.time, *self.counters]

    @classmethod
    def load(cls, saved: list[Any] | None) -> Moment | None:
        if saved is None:
            return None
        moment = cls.__new__(cls)
        moment.step, moment.time, moment.counters = saved[0], saved[1], (saved[2], saved[3])
        return moment


class Holding:
    """Follows one condition. The onset is the first step at which it was true since it was last false; unknown neither
    extends nor resets anything."""

    __slots__ = ("clock", "count", "onset", "recent", "span", "trues")

    def __init__(self, span: Span, clock: Clock) -> None:
        self.span = span
        self.clock = clock
        self.onset: Moment | None = None
        self.count = 0
        self.recent: list[bool] = [] if span.n else _NONE
        self.trues = 0

    def forget(self) -> None:
        self.onset = None
        self.count = self.trues = 0
        self.recent.clear()

    def see(self, step: int, time: float, value: bool | None) -> bool:
        """Take one evaluation; whether the condition is true here and has been for its span."""
        if value is None:
            return False
        span = self.span
        if span.n:
            self.recent.append(value)
            self.trues += value
            if len(self.recent) > span.n:
                self.trues -= self.recent.pop(0)
        if not value:
            self.onset = None
            self.count = 0
            return False
        if self.onset is None:
            self.onset = Moment(step, time, self.clock)
        if span.counts:
            self.count += 1
        if span.n:
            return self.trues >= span.k
        for extent in span.extents:  # noqa: SIM110 - a generator costs more than all the rest
            if not self._reached(extent, step, time):
                return False
        return True

    def unmoved_until(self, step: int) -> float:
        """Up to which step nothing changes as long as the condition stays as it was at this one, which is known."""
        span, onset = self.span, self.onset
        if span.n or onset is None:
            return step if span.n else math.inf
        return max(step, onset.step + span.steps - 2)

    def _reached(self, extent: Extent, step: int, time: float) -> bool:
        if extent.unit == SAMPLES:
            return self.count >= extent.size
        onset = self.onset
        assert onset is not None
        if extent.unit == STEPS:
            return step - onset.step + 1 >= extent.size
        return onset.since(extent.unit, step, time, self.clock) >= extent.size

    def progress(self, step: int, time: float) -> str:
        """How far it is: "14 of 20 steps"."""
        if self.onset is None:
            return ""
        if self.span.n:
            return f"{self.trues} of the last {len(self.recent)}, needs {self.span.k} of {self.span.n}"
        parts = []
        for extent in self.span.extents:
            if extent.unit == SAMPLES:
                done = float(self.count)
            else:
                done = self.onset.since(extent.unit, step, time, self.clock) + (extent.unit == STEPS)
            unit = "s" if extent.unit == TIME else f" {extent.unit}"
            parts.append(f"{done if math.isfinite(done) else 0:g} of {extent.size:g}{unit}")
        return " and ".join(parts)

    def save(self) -> list[Any]:
        return [self.onset.save() if self.onset else None, self.count, list(self.recent)]

    def load(self, saved: list[Any]) -> None:
        self.onset = Moment.load(saved[0])
        self.count = saved[1]
        self.recent = list(saved[2]) if self.span.n else _NONE
        self.trues = sum(self.recent)
