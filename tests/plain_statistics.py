"""Statistics of a plain list, worked out exactly: what the functions of the language are held to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

UNKNOWN = math.nan


def number(exact: Fraction) -> float:
    """The nearest float; too large for one is undefined."""
    try:
        return float(exact)
    except OverflowError:
        return UNKNOWN


def root(square: Fraction) -> float:
    with localcontext() as context:
        context.prec = 60
        context.Emax, context.Emin = 10**6, -(10**6)
        answer = float((Decimal(square.numerator) / Decimal(square.denominator)).sqrt())
    return answer if answer < math.inf else UNKNOWN


def exact(xs: Sequence[float]) -> list[Fraction]:
    return [Fraction(x) for x in xs]


def mean_of(xs: Sequence[Fraction]) -> Fraction:
    return sum(xs, Fraction(0)) / len(xs)


def median_of(xs: Sequence[Fraction]) -> Fraction:
    ys = sorted(xs)
    return (ys[(len(ys) - 1) // 2] + ys[len(ys) // 2]) / 2


def squares(xs: Sequence[Fraction], ys: Sequence[Fraction]) -> Fraction:
    """The sum of the products of the distances from the means."""
    mx, my = mean_of(xs), mean_of(ys)
    return sum(((x - mx) * (y - my) for x, y in zip(xs, ys)), Fraction(0))


def mad_of(xs: Sequence[Fraction]) -> Fraction:
    centre = median_of(xs)
    return Fraction("1.4826") * median_of([abs(x - centre) for x in xs])


def lie_between(low: float, high: float, part: Fraction) -> float:
    if part == 0 or low == high:
        return low
    if math.isinf(low) or math.isinf(high):
        return low + high
    return number(Fraction(low) + (Fraction(high) - Fraction(low)) * part)


def quantile_of(xs: Sequence[float], q: Fraction) -> float:
    ys = sorted(xs)
    place = q * (len(ys) - 1)
    below = math.floor(place)
    return lie_between(ys[below], ys[min(below + 1, len(ys) - 1)], place - below)
