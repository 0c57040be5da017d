"""resid_std: how much x scatters about its own trend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.line import Line
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.sliding import Windows


class ResidStd(Windowed):
    """The standard deviation of the points of x about their least-squares line, with n - 2, in x's own unit.

    The noise without the trend: a loss that falls steadily has a large `std` and a small `resid_std`. NaN and ±inf are
    dropped. Unknown until the window's span has been lived since x's first point (of samples: until it holds that many),
    and with fewer than three usable points. Exact to the last digit; exactly 0 over equal points.

    One spike fills it, and a bend counts as noise: keep the window shorter than the curve, or take `noise`.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(ResidStd, [1, 2, 3, 4, 8], W=(3, "steps"))
    [nan, nan, 0.0, 0.0, 1.224744871391589]
    """

    name = "resid_std"
    kernel = Line
    minimum = 3
    example = "when resid_std(loss, 500 steps) > 2 * baseline(resid_std(loss, 500 steps), 1000 steps) -> yellow"

    @staticmethod
    def value(window: Line, arguments: Arguments) -> float:
        return window.scatter()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.resid_std()
