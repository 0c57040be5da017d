"""Bracket: between what the values of a reference surely lie, until some more points have been let in.

Of `n` points in order, no rank moves farther than by so many places as points have come or gone. So a median of many
points is known, near enough, long after it was looked up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.exact import midpoint

_SHARE = 12
"""One point in so many may come before it is looked up again: an eighth of the points on either side of the median lie
within the bracket, and that is narrow beside a threshold of several times the noise."""

_LEAST, _MANY = 8, 80
"""Of fewer points values are exact; more of them NumPy puts in order sooner."""

_U = 2.0**-53


class Bracket:
    """Between what `usual` and, where it is wanted, `noise` of a reference lie."""

    def __init__(self, reference: Accepted) -> None:
        self._reference = reference
        self.wants_noise = False

    def renew(self) -> tuple[float, float, float, float, int]:
        """`usual` and how far off that may be; `noise` likewise; and up to which `moved` of the reference it stands.

        NaN where they are unknown. Of few points they are exact, and stand for none.
        """
        reference = self._reference
        moved = reference.moved
        if not reference.is_known:
            return math.nan, math.nan, math.nan, math.nan, moved
        if len(reference.trail) < _LEAST:
            exact = reference.noise(0, 0.0) if self.wants_noise else math.nan
            return reference.usual(0, 0.0), 0.0, exact, 0.0, moved
        more = max(1, len(reference.trail) // _SHARE)
        usual, noise = self._between(reference.trail.values(reference.trail.begin, reference.trail.end), more)
        return *usual, *noise, moved + more

    def _between(self, values: Sequence[float], more: int) -> tuple[tuple[float, float], tuple[float, float]]:
        in_order, apart = (_in_order, _apart) if len(values) > _MANY else (sorted, _plainly_apart)
        ordered = in_order(values)
        low, high = _middle(ordered, more)
        if not self.wants_noise:
            return _near(low, high), (math.nan, math.nan)
        middle, off = midpoint(low, high), high / 2 - low / 2
        least, most = _middle(in_order(apart(ordered, middle)), more)
        below, above = _middle(in_order(apart(values[1:], values[:-1])), more)
        least, most = 1.4826 * max(0.0, least - off), 1.4826 * (most + off)
        return _near(low, high), _near(max(least, below / 0.954), max(most, above / 0.954))


def _in_order(values: Sequence[float]) -> Sequence[float]:
    return np.sort(values)  # type: ignore[return-value]


def _apart(values: Sequence[float], other: Sequence[float] | float) -> Sequence[float]:
    with np.errstate(over="ignore"):
        return np.abs(np.subtract(values, other))  # type: ignore[return-value]


def _plainly_apart(values: Sequence[float], other: Sequence[float] | float) -> Sequence[float]:
    if isinstance(other, float):
        return [abs(value - other) for value in values]
    return [abs(value - before) for value, before in zip(values, other)]


def _middle(ordered: Sequence[float], more: int) -> tuple[float, float]:
    """Between what the median lies when up to so many numbers have come, and up to so many have gone."""
    n = len(ordered)
    return float(ordered[(n - more - 1) // 2 - more]), float(ordered[(n + more) // 2 + more])


def _near(low: float, high: float) -> tuple[float, float]:
    """What lies in between, and how far off it may be, rounding included; an overflow is NaN."""
    off = high / 2 - low / 2 + 16 * _U * max(abs(low), abs(high))
    return (midpoint(low, high), off) if off < math.inf else (math.nan, math.nan)
