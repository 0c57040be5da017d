"""lowest: the best so far of something that should fall."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vitalsdsl.kernels.lifetime import Lifetime
from vitalsdsl.ops.base import Arguments, Stateful, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.spread_out import Points


class Lowest(Stateful):
    """The lowest finite point of x since the start, in x's own unit.

    NaN and ±inf are dropped. Known from the first finite point on; after a rewind as if the later points had not been.

    One lucky point sets it for ever: `lowest(mean(loss, 100 steps))` is the best level, `lowest(loss)` the best noise.

    >>> from math import inf, nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Lowest, [nan, 3, 4, -inf, 2])
    [nan, 3.0, 3.0, 3.0, 2.0]
    """

    name = "lowest"
    phrase = "the lowest {x} so far"
    parameters = (X,)
    example = "when mean(loss, 100 steps) > 2 * lowest(mean(loss, 100 steps)) for 300 steps -> orange"

    @classmethod
    def sharing(cls, arguments: Arguments) -> tuple[Any, ...]:
        return ("lifetime",)

    @classmethod
    def new(cls, arguments: Arguments) -> Lifetime:
        return Lifetime()

    @classmethod
    def reader(cls, state: Lifetime, arguments: Arguments) -> Callable[[int, float], float]:
        return state.lowest

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.lowest(rows)
