"""corr: whether two streams move together."""

from __future__ import annotations

from vitalsdsl.kernels.pairs import Pairs
from vitalsdsl.ops.base import WINDOW, Arguments, Parameter, Takes, Windowed, X


class Corr(Windowed):
    """Pearson's correlation of x and y in a window, from -1 to 1, over the steps at which both have a point.

    A step at which only one of them has a point does not count, so a window of 50 samples is the last 50 such pairs. A
    pair with a NaN or ±inf is dropped. Unknown until the window's span has been lived since the first pair (of samples:
    until there were that many), with fewer than two usable pairs, and where x or y does not vary. Exact to the last digit.

    Two trends correlate whatever they have to do with one another: take `delta(x)` and `delta(y)` to ask whether they
    jump together. Below 30 pairs or so, values of ±0.4 are nothing unusual.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Corr, [(1, 2), (2, 4), (3, 7), (nan, 1), (4, 4)], W=(3, "samples"))
    [nan, nan, 0.9933992677987828, 1.0, -1.0]
    """

    name = "corr"
    parameters = (X, Parameter("y", Takes.STREAM), WINDOW)
    kernel = Pairs
    minimum = 2
    example = "when corr(grad_norm, loss, 2000 steps) < -0.3 for 500 steps -> yellow"

    @staticmethod
    def value(window: Pairs, arguments: Arguments) -> float:
        return window.correlation()
