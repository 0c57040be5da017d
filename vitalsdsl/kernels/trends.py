"""The two halves of many windows, and by how much they differ: what `rising`, `falling` and `flat` ask of a whole run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitalsdsl.kernels.columns import Array, Column
from vitalsdsl.kernels.in_order import MOST_LENGTHS, InOrder, midpoints, stacks

LEAST = 4
"""A half of fewer points says nothing."""

MOST = 1 << 22
"""Numbers of windows whose halves may differ, up to which they are looked at all at once."""

_EPS, _FINE = float(np.finfo(float).eps), float(np.finfo(np.longdouble).eps)


@dataclass(frozen=True)
class Trends:
    """Of the windows that are known: the rise from half to half, its standard error, half the earlier median, and by how
    much the rise may be off. Of a rise within three errors at their least, the error is that least one.

    `which` says for each closed step which window it has, -1 for none.
    """

    rise: Array
    error: Array
    level: Array
    off: Array
    which: Array

    def rising(self) -> Column:
        """As the function `rising`: 1, 0 and NaN, with a slack where either is possible."""
        return self._column(self.rise > 3 * self.error, self.rise, 3 * self.error)

    def falling(self) -> Column:
        """As the function `falling`."""
        return self._column(-self.rise > 3 * self.error, -self.rise, 3 * self.error)

    def flat(self, tolerance: float) -> Column:
        """As the function `flat`."""
        bound = np.maximum(3 * self.error, tolerance * np.abs(self.level))
        return self._column(np.abs(self.rise) <= bound, np.abs(self.rise), bound)

    def _column(self, said: Array, rise: Array, bound: Array) -> Column:
        known = self.which >= 0
        values, slack = np.full(len(known), np.nan), np.zeros(len(known))
        values[known] = said[self.which[known]]
        is_open = (self.off > 0) & (np.abs(rise - bound) <= 2 * self.off)
        slack[known] = is_open[self.which[known]]
        return Column(values, slack if is_open.any() else 0.0)


def trends(values: Array, lo: Array, halfway: Array, hi: Array, warm: Array) -> Trends | None:
    """Of the windows `values[lo:hi]`, one for each closed step, whose later half begins at `halfway`. None where there
    are too many that have to be looked at closely."""
    known = warm & (halfway - lo >= LEAST) & (hi - halfway >= LEAST)
    differs = known.copy()
    differs[1:] &= (np.diff(lo) != 0) | (np.diff(hi) != 0) | (np.diff(halfway) != 0) | ~known[:-1]
    which = np.where(known, np.cumsum(differs) - 1, -1)
    lo, halfway, hi = lo[differs], halfway[differs], hi[differs]
    (a, b), (c, d) = InOrder(values, lo, halfway).middles, InOrder(values, halfway, hi).middles
    rise, off = _rises(a, b, c, d)
    apart = np.abs(values[1:] / 2 - values[:-1] / 2)
    sigma = midpoints(*InOrder(apart, lo, hi - 1).middles) / 0.954
    error = 1.2533 * sigma * np.sqrt(1 / (halfway - lo) + 1 / (hi - halfway))
    near = np.nonzero(~(np.abs(rise) <= 3 * error))[0]
    if len(near):
        medians = (a[near], b[near], c[near], d[near])
        deviation = _deviations(values, lo[near], halfway[near], hi[near], medians)
        if deviation is None:
            return None
        wide = 1.4826 * deviation
        with np.errstate(all="ignore"):
            likeness = np.where(wide > 0, sigma[near] / wide, 1.0)
        r = np.minimum(np.maximum(1 - likeness * likeness, 0.0), 0.95)
        error[near] *= np.sqrt((1 + r) / (1 - r))
    return Trends(rise, error, midpoints(a, b) / 2, off, which)


def _rises(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array]:
    """Half of what the middle of c and d lies above that of a and b, and by how much that may be off."""
    fine = np.longdouble
    late, one = _added(c.astype(fine) / 4, d.astype(fine) / 4)
    early, two = _added(a.astype(fine) / 4, b.astype(fine) / 4)
    rise, three = _added(late, -early)
    rounded = rise.astype(float)
    is_exact = (one == 0) & (two == 0) & (three == 0)
    size = np.abs(a) + np.abs(b) + np.abs(c) + np.abs(d)
    off = np.where(is_exact, 0.0, _EPS * np.abs(rounded) + 4 * _FINE * size)
    is_plain = (a == b) & (c == d)
    return np.where(is_plain, c / 2 - a / 2, rounded), np.where(is_plain, 0.0, off)


def _added(x: Array, y: Array) -> tuple[Array, Array]:
    """The sum, and what rounding has lost of it."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _deviations(values: Array, lo: Array, halfway: Array, hi: Array, medians: tuple[Array, ...]) -> Array | None:
    """Half the median distance of each window's points from the median of their own half, as `Halves` has it."""
    lengths = hi - lo
    if int(lengths.sum()) > MOST:
        return None
    early = halfway - lo
    shape = early * (int(lengths.max()) + 1) + lengths
    shapes = np.unique(shape)
    if len(shapes) > MOST_LENGTHS:
        return None
    found = np.empty(len(lo))
    for one in shapes:
        alike = np.nonzero(shape == one)[0]
        n, half = int(lengths[alike[0]]), int(early[alike[0]])
        for part, (stack,) in stacks(lo[alike], lengths[alike], n, values):
            a, b, c, d = (median[alike[part], None] / 2 for median in medians)
            away = np.concatenate([_away(stack[:, :half] / 2, a, b), _away(stack[:, half:] / 2, c, d)], axis=1)
            away.sort(axis=1)
            found[alike[part]] = midpoints(away[:, (n - 1) // 2], away[:, n // 2])
    return found


def _away(half: Array, low: Array, high: Array) -> Array:
    below = half <= low
    return np.where(below, midpoints(low - half, high - half), midpoints(half - low, half - high))
