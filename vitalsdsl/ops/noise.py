"""noise: how much x usually scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.ops.base import Arguments
from vitalsdsl.ops.usual import UNLESS as UNLESS
from vitalsdsl.ops.usual import Usual

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InReference, Piece
    from vitalsdsl.kernels.sliding import Windows


class Noise(Usual):
    """How much x usually scatters, in x's own unit: a noise scale for thresholds in units of noise.

    Over the same accepted points as `usual(x, W, …)`, the greater of two robust scales: 1.4826 times the median absolute
    deviation, and the median absolute difference of neighbours divided by 0.954. For white noise both estimate the
    standard deviation; the second ignores a trend, the first sees slow swings.

    Frozen, warmed and unknown exactly as `usual` is. 0 over equal points, so put a floor beside it:
    `greatest(6 * noise(loss, 500 steps), 5% * usual(loss, 500 steps))`.

    >>> from vitalsdsl.kernels.accepted import Accepted
    >>> from vitalsdsl.ground.types import Extent
    >>> reference = Accepted(Extent(5, "samples"))
    >>> for step, x in enumerate([1.0, 1.2, 1.1, 1.0, 1.3]):
    ...     reference.push(step, 0.0, x)
    ...     reference.decide(accept=True)
    >>> round(reference.noise(5, 0.0), 4)
    0.1572
    """

    name = "noise"
    phrase = "the usual scatter of {x} ({W})"
    example = "when loss > usual(loss, 500 steps) + 6 * noise(loss, 500 steps) for 3 samples -> yellow"

    @classmethod
    def reader(cls, state: Accepted, arguments: Arguments) -> Callable[[int, float], float]:
        return state.noise

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.noise()

    @classmethod
    def ahead(cls, reference: InReference) -> Piece:
        return reference.noise()
