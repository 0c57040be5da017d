"""Some of a trail's points, in order of size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vitalsdsl.kernels.ranked import Ranked
from vitalsdsl.kernels.trail import Trail

FEW = 40
"""So many numbers are put in order sooner than they are kept in order."""

_MANY = 8
"""So many that have come or gone are put in their places one by one."""


class KeptInOrder:
    """The values of points in a row, or the distances from each to the next, asked for by the points' numbers.

    What was asked for last is kept, and mended where little has come or gone since.

    >>> from vitalsdsl.kernels.trail import Ring
    >>> trail = Trail(Ring("steps"))
    >>> for step, value in enumerate([3.0, 1.0, 2.0, 7.0]):
    ...     trail.append(step, value, step)
    >>> KeptInOrder(trail).between(0, 3), KeptInOrder(trail, lambda a, b: abs(a - b)).between(0, 4)
    ([1.0, 2.0, 3.0], [1.0, 2.0, 5.0])
    """

    __slots__ = ("_begin", "_distance", "_end", "_ordered", "_trail")

    def __init__(self, trail: Trail, distance: Callable[[float, float], float] | None = None) -> None:
        self._trail = trail
        self._distance = distance
        self._begin = self._end = 0
        self._ordered = Ranked()

    def between(self, begin: int, end: int) -> Sequence[float]:
        """The lowest first, of the points from one number up to another; both only ever grow."""
        trail, ordered, distance = self._trail, self._ordered, self._distance
        if end - begin <= FEW:
            return sorted(self._numbers(begin, end))
        come, gone = range(self._end, end), range(self._begin, begin)
        if not ordered or len(come) > _MANY or len(gone) > _MANY or self._begin < trail.kept:
            ordered = self._ordered = Ranked(self._numbers(begin, end))
        elif distance is not None:
            for number in come:
                ordered.add(distance(trail.numbered(number - 1), trail.numbered(number)))
            for number in gone:
                ordered.remove(distance(trail.numbered(number), trail.numbered(number + 1)))
        else:
            for number in come:
                ordered.add(trail.numbered(number))
            for number in gone:
                ordered.remove(trail.numbered(number))
        self._begin, self._end = begin, end
        return ordered.whole()

    def _numbers(self, begin: int, end: int) -> Sequence[float]:
        values = self._trail.values(begin, end)
        return values if self._distance is None else list(map(self._distance, values, values[1:]))
