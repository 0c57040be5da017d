"""A metric over a whole run, in bounded memory: how high and low it went in each stretch of it."""

from __future__ import annotations

import math
from array import array
from collections import deque

MOST = 600
"""Stretches that a curve holds at most twice as many of: more than a page is wide in pixels."""

TAIL = 200
"""The newest points that are kept as they are, for what is said of the end of a run."""


class Curve:
    """The points of one metric, `size` of them to a stretch; as a run grows, neighbours become one and `size` doubles.

    A stretch has its first step, its lowest and highest finite value and the mean of those; a stretch of NaN and ±inf
    alone has NaN for all three. `nonfinite` are the steps at which those came (the first thousand).

    >>> curve = Curve(most=2)
    >>> for step, value in enumerate([1.0, 3.0, 2.0, math.nan, 5.0, 4.0]):
    ...     curve.add(step, value)
    >>> list(curve.steps), list(curve.low), list(curve.high), curve.nonfinite
    ([0, 2, 4], [1.0, 2.0, 4.0], [3.0, 2.0, 5.0], [3])
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.size = 1
        self.steps = array("q")
        self.low = array("d")
        self.high = array("d")
        self.total = array("d")
        self.finite = array("q")
        self._in_last = 0
        self.count = 0
        self.nonfinite: list[int] = []
        self.tail: deque[tuple[int, float]] = deque(maxlen=TAIL)
        self.lowest = (math.nan, 0)
        """The lowest finite value, with its step."""
        self.highest = (math.nan, 0)

    def add(self, step: int, value: float) -> None:
        """One more point."""
        self.count += 1
        self.tail.append((step, value))
        if not self.steps or self._in_last == self.size:
            if len(self.steps) == 2 * self._most:
                self._halve()
            if not self.steps or self._in_last == self.size:
                self._begin(step)
        self._in_last += 1
        if not math.isfinite(value):
            if len(self.nonfinite) < 1000:
                self.nonfinite.append(step)
            return
        if not value >= self.lowest[0]:
            self.lowest = (value, step)
        if not value <= self.highest[0]:
            self.highest = (value, step)
        if not value >= self.low[-1]:
            self.low[-1] = value
        if not value <= self.high[-1]:
            self.high[-1] = value
        self.total[-1] += value
        self.finite[-1] += 1

    def rewind(self, to: int) -> None:
        """The run went back to a step: what came after it no longer counts. A stretch that began before is kept whole."""
        while self.steps and self.steps[-1] > to:
            for kept in (self.steps, self.low, self.high, self.total, self.finite):
                kept.pop()
            self._in_last = self.size
        while self.tail and self.tail[-1][0] > to:
            self.tail.pop()
        self.nonfinite = [step for step in self.nonfinite if step <= to]

    @property
    def mean(self) -> list[float]:
        """The mean of each stretch's finite values."""
        return [total / n if n else math.nan for total, n in zip(self.total, self.finite)]

    @property
    def is_drawable(self) -> bool:
        """Whether there is a finite value in it."""
        return any(self.finite)

    def _begin(self, step: int) -> None:
        self._in_last = 0
        self.steps.append(step)
        self.low.append(math.nan)
        self.high.append(math.nan)
        self.total.append(0.0)
        self.finite.append(0)

    def _halve(self) -> None:
        self.steps = self.steps[::2]
        pairs = range(0, len(self.low), 2)
        self.low = array("d", [_least(self.low[i], self.low[i + 1]) for i in pairs])
        self.high = array("d", [-_least(-self.high[i], -self.high[i + 1]) for i in pairs])
        self.total = array("d", [self.total[i] + self.total[i + 1] for i in pairs])
        self.finite = array("q", [self.finite[i] + self.finite[i + 1] for i in pairs])
        self._in_last += self.size
        self.size *= 2


def _least(a: float, b: float) -> float:
    return a if a <= b or b != b else b
