"""The statistics of section 5 over plain lists of numbers, exact (fractions) wherever that is easy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from .values import NONFINITE, TOO_FEW, UNDEFINED, Unknown, Value, settle


def mean(xs: Sequence[float]) -> Value:
    """The mean, correctly rounded; over equal points it is that value."""
    if not xs:
        return TOO_FEW
    return float(sum(map(Fraction, xs), Fraction(0)) / len(xs))


def total(xs: Sequence[float]) -> Value:
    """The sum, correctly rounded."""
    if not xs:
        return TOO_FEW
    try:
        return float(sum(map(Fraction, xs), Fraction(0)))
    except OverflowError:
        return UNDEFINED


def median(xs: Sequence[float]) -> Value:
    """The median of an even number is the mean of the middle two. ±inf takes part, NaN does not."""
    if not xs:
        return TOO_FEW
    ys = sorted(xs)
    low, high = ys[(len(ys) - 1) // 2], ys[len(ys) // 2]
    if low == high:
        return low
    if math.isinf(low) or math.isinf(high):
        return settle(low + high, (low, high))
    return float((Fraction(low) + Fraction(high)) / 2)


def quantile(xs: Sequence[float], q: Fraction) -> Value:
    """Linear interpolation between order statistics."""
    if not xs:
        return TOO_FEW
    ys = sorted(xs)
    place = q * (len(ys) - 1)
    below = math.floor(place)
    part = place - below
    low, high = ys[below], ys[min(below + 1, len(ys) - 1)]
    if part == 0 or low == high:
        return low
    if math.isinf(low) or math.isinf(high):
        return settle(low + high, (low, high))
    return float(Fraction(low) + (Fraction(high) - Fraction(low)) * part)


def _squares(xs: Sequence[float]) -> Fraction:
    centre = sum(map(Fraction, xs), Fraction(0)) / len(xs)
    return sum(((Fraction(x) - centre) ** 2 for x in xs), Fraction(0))


def _root(square: Fraction) -> float:
    """The square root of an exact number, to double precision even where it is tiny."""
    if square == 0:
        return 0.0
    shift = 2 * ((square.denominator.bit_length() - square.numerator.bit_length()) // 2)
    scaled = square * Fraction(2) ** shift
    return math.ldexp(math.sqrt(scaled), -(shift // 2))


def var(xs: Sequence[float]) -> Value:
    """The variance, with n − 1; two usable points."""
    return TOO_FEW if len(xs) < 2 else float(_squares(xs) / (len(xs) - 1))


def std(xs: Sequence[float]) -> Value:
    """The standard deviation, with n − 1; two usable points."""
    return TOO_FEW if len(xs) < 2 else _root(_squares(xs) / (len(xs) - 1))


def cv(xs: Sequence[float]) -> Value:
    """`cv` = std / abs(mean)."""
    if len(xs) < 2:
        return TOO_FEW
    centre = sum(map(Fraction, xs), Fraction(0)) / len(xs)
    return UNDEFINED if centre == 0 else _root(_squares(xs) / (len(xs) - 1) / centre**2)


def mad(xs: Sequence[float], scale: float = 1.4826, least: int = 5) -> Value:
    """`mad` = 1.4826 × median absolute deviation, five usable points."""
    if len(xs) < least:
        return TOO_FEW
    centre = median(xs)
    return scale * median([abs(x - centre) for x in xs])  # type: ignore[operator]


def neighbours(xs: Sequence[float]) -> float:
    """σ, the median absolute difference of neighbours / 0.954."""
    return median([abs(b - a) for a, b in itertools.pairwise(xs)]) / 0.954  # type: ignore[operator]


def _line(steps: Sequence[float], xs: Sequence[float]) -> tuple[Fraction, Fraction, Fraction]:
    """The sums of squares and products about the means: of steps, of both, of values."""
    ts, ys = [Fraction(t) for t in steps], [Fraction(x) for x in xs]
    tm, ym = sum(ts, Fraction(0)) / len(ts), sum(ys, Fraction(0)) / len(ys)
    return (
        sum(((t - tm) ** 2 for t in ts), Fraction(0)),
        sum(((t - tm) * (y - ym) for t, y in zip(ts, ys)), Fraction(0)),
        sum(((y - ym) ** 2 for y in ys), Fraction(0)),
    )


def slope(steps: Sequence[float], xs: Sequence[float]) -> Value:
    """Least squares, per step; two usable points."""
    if len(xs) < 2:
        return TOO_FEW
    tt, ty, _ = _line(steps, xs)
    return UNDEFINED if tt == 0 else float(ty / tt)


def resid_std(steps: Sequence[float], xs: Sequence[float]) -> Value:
    """Standard deviation about that line, n − 2, three usable points."""
    if len(xs) < 3:
        return TOO_FEW
    tt, ty, yy = _line(steps, xs)
    return UNDEFINED if tt == 0 else _root((yy - ty * ty / tt) / (len(xs) - 2))


def corr(xs: Sequence[float], ys: Sequence[float]) -> Value:
    """Pearson; two usable points; undefined where one of the two does not vary."""
    if len(xs) < 2:
        return TOO_FEW
    xx, xy, yy = _line(xs, ys)
    if xx == 0 or yy == 0:
        return UNDEFINED
    return math.copysign(_root(xy * xy / (xx * yy)), xy)


def ema(steps: Sequence[float], xs: Sequence[float], n: float) -> Value:
    """v += (1 − w)(x − v), w = (1 − 2/(N+1))^Δ, Δ the steps since the last usable point, started at the first."""
    if not xs:
        return TOO_FEW
    value = xs[0]
    for before, step, x in zip(steps, steps[1:], xs[1:]):
        value += (1 - (1 - 2 / (n + 1)) ** (step - before)) * (x - value)
    return value


def trend(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float] | Unknown:
    """(d, se, median A) of the halves A and B of a window: d = median B − median A and its standard error."""
    if len(first) < 4 or len(second) < 4:
        return TOO_FEW
    a, b = median(first), median(second)
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return NONFINITE
    sigma = neighbours([*first, *second])
    wide = mad_about([abs(x - a) for x in first] + [abs(x - b) for x in second])
    r = 0.0 if wide == 0 else min(max(1 - (sigma / wide) ** 2, 0.0), 0.95)
    se = 1.2533 * sigma * math.sqrt(1 / len(first) + 1 / len(second)) * math.sqrt((1 + r) / (1 - r))
    return b - a, se, a


def mad_about(deviations: Sequence[float]) -> float:
    """σw = 1.4826 × median of abs(x − median of its own half)."""
    return 1.4826 * median(deviations)  # type: ignore[operator]
