"""baseline: what x was at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME
from vitalsdsl.kernels.opening import Opening
from vitalsdsl.ops.base import Arguments, Parameter, Stateful, Takes, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column, Rows
    from vitalsdsl.kernels.spread_out import Points

_UNITS = (STEPS, SAMPLES, TIME)


class Baseline(Stateful):
    """The mean of the first N steps, samples or minutes of x, fixed from then on, in x's own unit.

    `from: M` leaves out the first M (a warm-up). `by: median` takes the median of the stretch, which a spike in it cannot
    move. `from: EVENT` measures anew after each edge of the event, the edge's own step being the first; while there was
    no edge, from x's first point. NaN and ±inf are dropped, but take their place among samples.

    Steps are counted from x's first point, not from step 0: a run that resumes at 40,000 without its saved state measures
    the stretch after it. Unknown until the stretch is complete, and for good where nothing in it was usable.

    x may be left out where the other side of the comparison is one bare metric or let: `grad_norm > 3 * baseline(500)`.

    A short baseline is a noisy one, and of a metric that comes every 1000 steps `baseline(x, 500 steps)` is one point:
    take ten points or more, `baseline(x, 10 samples)`. A baseline taken during the warm-up of the learning rate makes all
    that follows look high. For a reference that moves with the run take `usual`.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Baseline, [9, 1, nan, 3, 50], N=(3, "steps"), **{"from": (1, "steps")})
    [nan, nan, nan, 2.0, 2.0]
    >>> stream(Baseline, [9, 1, 2, 3, 50], N=(3, "samples"), by="median")
    [nan, nan, 2.0, 2.0, 2.0]
    """

    name = "baseline"
    phrase = "the baseline of {x} (its first {N})"
    parameters = (
        X,
        Parameter("N", Takes.EXTENT, units=_UNITS),
        Parameter("from", Takes.ORIGIN, keyword=True, required=False, units=_UNITS),
        Parameter("by", Takes.WORD, keyword=True, required=False, default="mean", words=("mean", "median")),
    )
    implicit_subject = True
    example = "when grad_norm > 3 * baseline(grad_norm, 500 steps) for 20 steps -> orange"

    @classmethod
    def check(cls, arguments: Arguments) -> str | None:
        extent, origin = arguments["N"], arguments.get("from")
        if origin is None or origin == "event" or origin.unit == extent.unit:
            return None
        return f"the baseline is measured in {extent.unit}, so `from` must be in {extent.unit} too"

    @classmethod
    def new(cls, arguments: Arguments) -> Opening:
        origin = arguments.get("from")
        skip = 0 if origin is None or origin == "event" else origin.size
        return Opening(arguments["N"], skip, arguments.get("by") or "mean")

    @classmethod
    def columns(cls, points: Points, rows: Rows, arguments: Arguments) -> Column | None:
        state = cls.new(arguments)
        if arguments.get("from") == "event":
            return None
        return points.opening(rows, arguments["N"], state.skip, state.settled)
