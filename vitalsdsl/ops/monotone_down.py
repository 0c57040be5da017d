"""monotone_down: whether x has gone down at each of its last points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vitalsdsl.kernels.runs import Runs
from vitalsdsl.ops.base import Arguments
from vitalsdsl.ops.monotone_up import MonotoneUp as _MonotoneUp

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.spread_out import Points


class MonotoneDown(_MonotoneUp):
    """True where, of the last n points of x, each but the first is below the one before.

    The mirror of `monotone_up`: a score that got worse at each of its last evaluations. ±inf compares as usual. A
    condition: unknown until x has n points, and while one of the last n is NaN. Only samples.

    n points make n - 1 steps down, and the size of the steps does not matter: put one beside it.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(MonotoneDown, [3, 2, 1, 1, 0, -1, nan, -2], n=(3, "samples"))
    [None, None, True, False, False, True, None, None]
    """

    name = "monotone_down"
    example = "when monotone_down(accuracy, 4 samples) and growth(accuracy, 3 samples) < -5% on accuracy -> yellow"

    @classmethod
    def reader(cls, state: Runs, arguments: Arguments) -> Callable[[int, float], bool | None]:
        return state.falls

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.one_way(rows, int(arguments["n"].size), up=False)
