"""delta: by how much x has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.types import SAMPLES, Extent
from vitalsdsl.kernels.change import Change, SampleChange
from vitalsdsl.ops.base import Arguments, Parameter, Stateful, Takes, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.spread_out import Points


class Delta(Stateful):
    """x now minus x as it was D before, in x's own unit; without D, x at its newest point minus x at the point before.

    D in steps or time: `x before D` is x at its latest evaluation at or before s - D, so between two points of a slow
    metric it is the older one. D in samples: the point so many before the newest. Unknown before there is one, where
    either is unknown or NaN, and where two finite numbers are too far apart for a float. inf minus a number is inf.

    `delta(x)` is a change from one logged point to the next, whatever the steps between: a metric logged every 10 steps
    is compared over 10. In a condition that reads another metric too, it is held until x's next point: one jump can then
    hold `for` many steps; pace the clause by x with `on x`. A single change is mostly noise: ask `rising` for a trend.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Delta, [1, 3, None, 10, nan, 11])
    [nan, 2.0, 2.0, 7.0, nan, nan]
    >>> stream(Delta, [1, 3, None, 10, 10], D=(2, "steps"))
    [nan, nan, 2.0, 7.0, 7.0]
    """

    name = "delta"
    parameters = (X, Parameter("D", Takes.EXTENT, required=False))
    example = "when delta(loss_scale) < 0 for 3 samples on loss_scale -> yellow"

    @classmethod
    def warm_up(cls, arguments: Arguments) -> tuple[Extent, ...]:
        return (arguments.get("D") or Extent(1, SAMPLES),)

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return ("change", arguments.get("D") or (1, SAMPLES))

    @classmethod
    def new(cls, arguments: Arguments) -> Change | SampleChange:
        extent = arguments.get("D")
        if extent is None:
            return SampleChange(1)
        return SampleChange(int(extent.size)) if extent.unit == SAMPLES else Change(extent)

    @classmethod
    def reader(cls, state: Change | SampleChange, arguments: Arguments) -> Callable[[int, float], float]:
        return state.difference

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.change(rows, arguments.get("D") or Extent(1, SAMPLES))
