"""count: how many points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vitalsdsl.kernels.lifetime import Lifetime
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.kernels.state import State
from vitalsdsl.ops.base import Aggregate, Arguments, Parameter, Takes, Windowed, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.sliding import Windows
    from vitalsdsl.kernels.spread_out import Points


class Count(Windowed):
    """How many usable points x has in a window or, without a window, since the start.

    NaN and ±inf are not usable and not counted. Since the start it is always known: 0 before the first point. Over a
    window it is unknown until the window's span has been lived since x's first point (of samples: until it holds that
    many), and then 0 where nothing usable is in it.

    `count(loss) > 200` says that a rule has seen enough of this run, wherever its steps began. To count how often an
    event began, take `onsets`; how often a condition was true, `fraction(cond, W)`.

    >>> from math import inf, nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Count, [1, nan, None, inf, 5])
    [1.0, 1.0, 1.0, 1.0, 2.0]
    >>> stream(Count, [1, nan, None, inf, 5], W=(3, "steps"))
    [nan, nan, 1.0, 0.0, 1.0]
    """

    name = "count"
    parameters = (X, Parameter("W", Takes.EXTENT, required=False))
    kernel = Moments
    minimum = 0
    example = "when count(loss) > 200 and loss > 10 for 5 steps -> yellow"

    @staticmethod
    def value(window: Moments, arguments: Arguments) -> float:
        return float(window.usable)

    @classmethod
    def known_from_start(cls, arguments: Arguments) -> bool:
        return not arguments.get("W")

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return super().sharing(arguments) if arguments.get("W") else ("lifetime",)

    @classmethod
    def new(cls, arguments: Arguments) -> State:
        return super().new(arguments) if arguments.get("W") else Lifetime()

    @classmethod
    def reader(cls, state: Any, arguments: Arguments) -> Callable[[int, float], Any]:
        return super().reader(state, arguments) if arguments.get("W") else state.count

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return super().columns(points, rows, arguments) if arguments.get("W") else points.count(rows)

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.count()


class CountOfMembers(Aggregate):
    """How many members of a family a condition is true for: `count(grad_norm/layer_* > 5)`.

    Members for which it is unknown are not counted; where it is unknown for all of them, so is the count.

    >>> CountOfMembers.value([True, False, None, True])
    2.0
    """

    name = "count"
    parameters = (Parameter("F", Takes.CONDITION),)
    example = "when count(dead_fraction/layer_* > 50%) >= 3 -> yellow"

    @staticmethod
    def value(members: list[bool | None]) -> float:
        return float(members.count(True))
