"""growth: by what share x has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vitalsdsl.ground.types import Kind
from vitalsdsl.kernels.change import Change, SampleChange
from vitalsdsl.ops.base import Arguments, Parameter, Takes, X
from vitalsdsl.ops.delta import Delta as _Delta

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.spread_out import Points


class Growth(_Delta):
    """The change of x over D as a share of what it was: delta(x, D) / abs(x before D). 10% is 0.1; a loss is negative.

    Unknown exactly where `delta(x, D)` is, and where x before D was 0.

    Over a long D it compares two single points, noise and all: `growth(mean(x, 100 steps), 1000 steps)` compares two
    levels. "Per step" means per logged row where x is logged every 10 steps: `growth(x, 1 steps)` is then the growth
    since the row before.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Growth, [2, 3, None, 0, 1], D=(1, "samples"))
    [nan, 0.5, 0.5, -1.0, nan]
    >>> stream(Growth, [-2, -1, 1], D=(1, "steps"))
    [nan, 0.5, 2.0]
    """

    name = "growth"
    parameters = (X, Parameter("D", Takes.EXTENT))
    result = Kind.RATIO
    example = "when growth(mean(loss, 100 steps), 1000 steps) > 10% for 100 steps -> yellow"

    @classmethod
    def reader(cls, state: Change | SampleChange, arguments: Arguments) -> Callable[[int, float], float]:
        return state.growth

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.growth(rows, arguments["D"])
