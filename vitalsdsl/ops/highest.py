"""highest: the best so far of something that should rise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vitalsdsl.kernels.lifetime import Lifetime
from vitalsdsl.ops.base import Arguments
from vitalsdsl.ops.lowest import Lowest as _Lowest

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.spread_out import Points


class Highest(_Lowest):
    """The highest finite point of x since the start, in x's own unit.

    NaN and ±inf are dropped. Known from the first finite point on; after a rewind as if the later points had not been.

    One lucky point sets it for ever: take the highest of a mean. `lr > 95% * highest(lr)` for "near its peak" is true
    during the whole warm-up, where each point is the highest yet; `since(delta(lr) > 0) > 100` says that it has stopped
    rising.

    >>> from math import inf, nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Highest, [nan, 3, 2, inf, 4])
    [nan, 3.0, 3.0, 3.0, 4.0]
    """

    name = "highest"
    phrase = "the highest {x} so far"
    example = "when mean(reward, 100 steps) < 50% * highest(mean(reward, 100 steps)) for 200 steps -> orange"

    @classmethod
    def reader(cls, state: Lifetime, arguments: Arguments) -> Callable[[int, float], float]:
        return state.highest

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.highest(rows)
