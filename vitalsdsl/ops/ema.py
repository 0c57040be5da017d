"""ema: x, smoothed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import STEPS
from vitalsdsl.kernels.smoothed import Smoothed
from vitalsdsl.ops.base import Arguments, Parameter, Stateful, Takes, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.pieces import InSmoothed, Piece
    from vitalsdsl.kernels.spread_out import Points


class Ema(Stateful):
    """The exponential moving average of x with a span of N steps, in x's own unit.

    It starts at the first usable point; each further one moves it: v += (1 - w)(x - v), w = (1 - 2/(N+1))^Δ, Δ being the
    steps since the usable point before. So a metric logged every 10 steps is smoothed over as many steps as one logged at
    each. The last N steps carry 86% of the weight. NaN and ±inf are dropped. Unknown until N steps have been lived since
    x's first point.

    No window is kept, so a spike never quite leaves: 14% of it is there after N steps, 2% after 2N. A span counts steps
    only; for samples or time take `mean`.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Ema, [1, 1, 1, 4, nan, 4], N=(3, "steps"))
    [nan, nan, 1.0, 2.5, 2.5, 3.625]
    """

    name = "ema"
    phrase = "the exponential average of {x} over {N}"
    parameters = (X, Parameter("N", Takes.EXTENT, units=(STEPS,)))
    example = "when ema(loss, 100 steps) > 1.2 * lowest(ema(loss, 100 steps)) for 200 steps -> yellow"

    @classmethod
    def check(cls, arguments: Arguments) -> str | None:
        return None if arguments["N"].size >= 1 else "N is one step or more"

    @classmethod
    def new(cls, arguments: Arguments) -> Smoothed:
        return Smoothed(arguments["N"])

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.smoothed(rows, arguments["N"].size)

    @classmethod
    def ahead(cls, window: InSmoothed, arguments: Arguments) -> Piece:
        return window.level()
