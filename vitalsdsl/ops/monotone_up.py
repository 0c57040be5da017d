"""monotone_up: whether x has gone up at each of its last points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.types import SAMPLES, Kind
from vitalsdsl.kernels.runs import Runs
from vitalsdsl.ops.base import Arguments, Parameter, Stateful, Takes, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.spread_out import Points


class MonotoneUp(Stateful):
    """True where, of the last n points of x, each but the first is above the one before.

    For metrics that come seldom, where `rising` has too few points: a validation loss that got worse five times running.
    ±inf compares as usual. A condition: unknown until x has n points, and while one of the last n is NaN. Only samples.

    n points make n - 1 steps up: `monotone_up(x, 6 samples)` is five rises. Pure noise goes up k times running once in
    (k + 1)! points; the size of the rises does not matter, so put one beside it.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(MonotoneUp, [1, 2, 3, 3, 4, 5, nan, 6], n=(3, "samples"))
    [None, None, True, False, False, True, None, None]
    """

    name = "monotone_up"
    parameters = (X, Parameter("n", Takes.EXTENT, units=(SAMPLES,)))
    result = Kind.CONDITION
    example = "when monotone_up(val_loss, 5 samples) and growth(val_loss, 4 samples) > 2% on val_loss -> yellow"

    @classmethod
    def check(cls, arguments: Arguments) -> str | None:
        return None if arguments["n"].size >= 2 else "two points or more can go one way, such as `3 samples`"

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return ("runs", arguments["n"])

    @classmethod
    def new(cls, arguments: Arguments) -> Runs:
        return Runs(int(arguments["n"].size))

    @classmethod
    def reader(cls, state: Runs, arguments: Arguments) -> Callable[[int, float], bool | None]:
        return state.rises

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.one_way(rows, int(arguments["n"].size), up=True)
