"""zscore: how unusual the newest point is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import Extent
from vitalsdsl.kernels.preceding import Preceding
from vitalsdsl.ops.base import WINDOW, Arguments, Stateful, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.spread_out import Points


class Zscore(Stateful):
    """How many scatters the newest point of x lies above the points before it: (x - median) / mad. Without a unit.

    The robust score: median and mad are those of the finite points in the W before the newest one, itself left out, so a
    spike does not excuse itself. Normal noise stays within 4 or so.

    It changes only when x has a point. Unknown until that point is W after x's first one (of samples: until W points are
    before it), with fewer than five finite points before it, where x itself is NaN or ±inf, and where the mad is 0 (more
    than half of the points before it are equal).

    An anomaly that lasts enters its own window: after half of it nothing is unusual any more. For what lasts, compare
    with `usual`.

    Source: B. Iglewicz and D. Hoaglin, How to detect and handle outliers, 1993.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> z = stream(Zscore, [1, 2, 3, 2, 1, 2, 9, nan, 2], W=(6, "steps"))
    >>> [round(value, 3) for value in z]
    [nan, nan, nan, nan, nan, nan, 9.443, nan, 0.0]
    """

    name = "zscore"
    phrase = "the robust z-score of {x} against the {W} before"
    parameters = (X, WINDOW)
    example = "when zscore(loss, 128 steps) > 6 and zscore(grad_norm, 128 steps) > 6 -> yellow"

    @classmethod
    def warm_up(cls, arguments: Arguments) -> tuple[Extent, ...]:
        return (arguments["W"],)  # the newest point is not one of those that it is compared with

    @classmethod
    def new(cls, arguments: Arguments) -> Preceding:
        return Preceding(arguments["W"])

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.scores(rows, arguments["W"])

    @classmethod
    def roughly(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        return points.scores_roughly(rows, arguments["W"])

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece | None:
        return window.score()
