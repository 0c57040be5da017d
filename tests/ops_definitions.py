"""What each function with a memory means, worked out anew at a step from everything that came before it.

Written from the language's page, slowly and exactly (fractions wherever that is possible); the streaming forms are held to these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

from plain_statistics import UNKNOWN, exact, mad_of, mean_of, median_of, number, quantile_of, root, squares

from vitalsdsl.ground.types import Extent


class Point(NamedTuple):
    """A point of x; `second` is y's value at the same step, None where y has none."""

    step: int
    time: float
    value: float
    second: float | None = None


@dataclass
class History:
    """All that was seen up to the close of a step."""

    step: int = -1
    time: float = math.nan
    points: list[Point] = field(default_factory=list)
    evaluations: list[tuple[int, float, bool | None]] = field(default_factory=list)
    edges: list[tuple[int, float]] = field(default_factory=list)


Value = float | bool | None
Definition = Callable[[History, dict[str, Any]], Value]
DEFINITIONS: dict[str, Definition] = {}


def defines(name: str) -> Callable[[Definition], Definition]:
    def keep(function: Definition) -> Definition:
        DEFINITIONS[name] = function
        return function

    return keep


def finite(points: Sequence[Point]) -> list[float]:
    return [p.value for p in points if math.isfinite(p.value)]


# -------------------------------------------------------------------- windows


def in_window(h: History, extent: Extent, points: Sequence[Point]) -> list[Point] | None:
    """The points in the window; None until it is warm."""
    if not points:
        return None
    size, unit = extent
    if unit == "samples":
        return list(points[-int(size) :]) if len(points) >= size else None
    if unit == "steps":
        return [p for p in points if h.step - size < p.step <= h.step] if h.step - points[0].step + 1 >= size else None
    return [p for p in points if h.time - size < p.time <= h.time] if h.time - points[0].time >= size else None


def over_finite(least: int, statistic: Callable[[list[Fraction]], float]) -> Definition:
    def define(h: History, a: dict[str, Any]) -> Value:
        window = in_window(h, a["W"], h.points)
        xs = finite(window or [])
        return UNKNOWN if window is None or len(xs) < least else statistic(exact(xs))

    return define


def over_numbers(statistic: Callable[[list[float], dict[str, Any]], float]) -> Definition:
    """`min max median quantile`: ±inf takes part."""

    def define(h: History, a: dict[str, Any]) -> Value:
        xs = [p.value for p in in_window(h, a["W"], h.points) or [] if not math.isnan(p.value)]
        return statistic(xs, a) if xs else UNKNOWN

    return define


def variance(xs: list[Fraction]) -> Fraction:
    return squares(xs, xs) / (len(xs) - 1)


DEFINITIONS |= {
    "mean": over_finite(1, lambda xs: number(mean_of(xs))),
    "sum": over_finite(1, lambda xs: number(sum(xs, Fraction(0)))),
    "var": over_finite(2, lambda xs: number(variance(xs))),
    "std": over_finite(2, lambda xs: root(variance(xs))),
    "cv": over_finite(2, lambda xs: root(variance(xs) / mean_of(xs) ** 2) if mean_of(xs) else UNKNOWN),
    "mad": over_finite(5, lambda xs: number(mad_of(xs))),
    "min": over_numbers(lambda xs, a: min(xs)),
    "max": over_numbers(lambda xs, a: max(xs)),
    "median": over_numbers(lambda xs, a: quantile_of(xs, Fraction(1, 2))),
    "quantile": over_numbers(lambda xs, a: quantile_of(xs, Fraction(str(a["q"])))),
}


@defines("count")
def count(h: History, a: dict[str, Any]) -> Value:
    window = in_window(h, a["W"], h.points) if "W" in a else h.points
    return UNKNOWN if window is None else float(len(finite(window)))


@defines("fraction")
def fraction(h: History, a: dict[str, Any]) -> Value:
    known = [Point(step, time, float(value)) for step, time, value in h.evaluations if value is not None]
    window = in_window(h, a["W"], known)
    return number(mean_of(exact([p.value for p in window]))) if window else UNKNOWN


def line(h: History, a: dict[str, Any], least: int) -> tuple[Fraction, Fraction, Fraction, int] | None:
    """Sums about the means: of steps squared, of steps and values, of values squared; and n."""
    window = [p for p in in_window(h, a["W"], h.points) or [] if math.isfinite(p.value)]
    if len(window) < least:
        return None
    steps, values = exact([p.step for p in window]), exact([p.value for p in window])
    return squares(steps, steps), squares(steps, values), squares(values, values), len(window)


@defines("slope")
def slope(h: History, a: dict[str, Any]) -> Value:
    sums = line(h, a, 2)
    return UNKNOWN if sums is None else number(sums[1] / sums[0])


@defines("resid_std")
def resid_std(h: History, a: dict[str, Any]) -> Value:
    sums = line(h, a, 3)
    return UNKNOWN if sums is None else root((sums[2] - sums[1] ** 2 / sums[0]) / (sums[3] - 2))


@defines("corr")
def corr(h: History, a: dict[str, Any]) -> Value:
    both = [p for p in h.points if p.second is not None]
    window = in_window(h, a["W"], both) or []
    usable = [p for p in window if math.isfinite(p.value) and math.isfinite(p.second or 0.0)]
    if len(usable) < 2:
        return UNKNOWN
    xs, ys = exact([p.value for p in usable]), exact([p.second or 0.0 for p in usable])
    xx, xy, yy = squares(xs, xs), squares(xs, ys), squares(ys, ys)
    return math.copysign(root(xy**2 / (xx * yy)), 1 if xy > 0 else -1) if xx and yy else UNKNOWN


# -------------------------------------------------------------------- two halves


def halves(h: History, a: dict[str, Any]) -> tuple[Fraction, Fraction, Fraction] | None:
    """(d, se², median A)."""
    size, unit = a["W"]
    window = in_window(h, a["W"], h.points)
    usable = [p for p in window or [] if math.isfinite(p.value)]
    if unit == "samples":
        early = usable[: len(usable) // 2]
    else:
        bound = (h.step if unit == "steps" else h.time) - size / 2
        early = [p for p in usable if (p.step if unit == "steps" else p.time) <= bound]
    late = usable[len(early) :]
    if len(early) < 4 or len(late) < 4:
        return None
    xs, ys = exact(finite(early)), exact(finite(late))
    a_middle, b_middle = median_of(xs), median_of(ys)
    both = xs + ys
    sigma = median_of([abs(q - p) for p, q in itertools.pairwise(both)]) / Fraction("0.954")
    wide = Fraction("1.4826") * median_of([abs(x - a_middle) for x in xs] + [abs(y - b_middle) for y in ys])
    r = min(max(1 - (sigma / wide) ** 2, Fraction(0)), Fraction("0.95")) if wide else Fraction(0)
    spread = Fraction(1, len(xs)) + Fraction(1, len(ys))
    return b_middle - a_middle, Fraction("1.2533") ** 2 * sigma**2 * spread * (1 + r) / (1 - r), a_middle


@defines("rising")
def rising(h: History, a: dict[str, Any]) -> Value:
    found = halves(h, a)
    return None if found is None else found[0] ** 2 > 9 * found[1] and found[0] > 0


@defines("falling")
def falling(h: History, a: dict[str, Any]) -> Value:
    found = halves(h, a)
    return None if found is None else found[0] ** 2 > 9 * found[1] and found[0] < 0


@defines("flat")
def flat(h: History, a: dict[str, Any]) -> Value:
    found = halves(h, a)
    tolerance = Fraction(str(a.get("tol", "0.02")))
    return None if found is None else found[0] ** 2 <= max(9 * found[1], (tolerance * found[2]) ** 2)


# -------------------------------------------------------------------- the past


def change(h: History, a: dict[str, Any]) -> tuple[float, float]:
    """x now and x before."""
    size, unit = a.get("D", Extent(1, "samples"))
    values = [p.value for p in h.points]
    if not values:
        return UNKNOWN, UNKNOWN
    if unit == "samples":
        return values[-1], values[-1 - int(size)] if len(values) > size else UNKNOWN
    if unit == "steps":
        back = [p.value for p in h.points if p.step <= h.step - size]
    else:
        back = [p.value for p in h.points if p.time <= h.time - size]
    return values[-1], back[-1] if back else UNKNOWN


def as_ieee(now: float, before: float, exactly: Callable[[Fraction, Fraction], Fraction]) -> float:
    if math.isfinite(now) and math.isfinite(before):
        return number(exactly(Fraction(now), Fraction(before)))
    return now - before


@defines("delta")
def delta(h: History, a: dict[str, Any]) -> Value:
    return as_ieee(*change(h, a), lambda now, before: now - before)


@defines("growth")
def growth(h: History, a: dict[str, Any]) -> Value:
    now, before = change(h, a)
    if before == 0:
        return UNKNOWN
    return as_ieee(now, before, lambda x, y: (x - y) / abs(y)) / (1 if math.isfinite(before) else abs(before))


@defines("zscore")
def zscore(h: History, a: dict[str, Any]) -> Value:
    size, unit = a["W"]
    if not h.points:
        return UNKNOWN
    *before, newest = h.points
    if unit == "samples":
        warm, window = len(before) >= size, before[-int(size) :]
    elif unit == "steps":
        warm, window = newest.step - h.points[0].step >= size, [p for p in before if p.step >= newest.step - size]
    else:
        warm = newest.time - h.points[0].time >= size
        window = [p for p in before if newest.time - size <= p.time < newest.time]
    xs = exact(finite(window))
    if not warm or len(xs) < 5 or not math.isfinite(newest.value) or not mad_of(xs):
        return UNKNOWN
    return number((Fraction(newest.value) - median_of(xs)) / mad_of(xs))


@defines("ema")
def ema(h: History, a: dict[str, Any]) -> Value:
    n = Fraction(a["N"].size)
    usable = [p for p in h.points if math.isfinite(p.value)]
    if not usable or h.step - h.points[0].step + 1 < n:
        return UNKNOWN
    with localcontext() as context:
        context.prec = 400
        context.Emax, context.Emin = 10**6, -(10**6)
        keep = (Decimal(a["N"].size) - 1) / (Decimal(a["N"].size) + 1)
        value = Decimal(usable[0].value)
        for before, point in itertools.pairwise(usable):
            value += (1 - keep ** (point.step - before.step)) * (Decimal(point.value) - value)
        return float(value)


@defines("baseline")
def baseline(h: History, a: dict[str, Any]) -> Value:
    size, unit = a["N"]
    origin = a.get("from")
    skip = origin.size if isinstance(origin, Extent) else 0
    if not h.points:
        return UNKNOWN
    start, began = h.edges[-1] if origin == "event" and h.edges else h.points[0][:2]
    since = [p for p in h.points if p.step >= start]
    if unit == "samples":
        complete, stretch = len(since) >= skip + size, since[int(skip) : int(skip + size)]
    elif unit == "steps":
        complete = h.step >= start + skip + size - 1
        stretch = [p for p in since if start + skip <= p.step < start + skip + size]
    else:
        complete = h.time >= began + skip + size
        stretch = [p for p in since if began + skip <= p.time < began + skip + size]
    xs = exact(finite(stretch))
    if not complete or not xs:
        return UNKNOWN
    return number(median_of(xs) if a.get("by") == "median" else mean_of(xs))


def monotone(goes: Callable[[float, float], bool]) -> Definition:
    def define(h: History, a: dict[str, Any]) -> Value:
        n = int(a["n"].size)
        last = [p.value for p in h.points[-n:]]
        if len(last) < n or any(map(math.isnan, last)):
            return None
        return all(goes(x, y) for x, y in itertools.pairwise(last))

    return define


DEFINITIONS |= {
    "monotone_up": monotone(lambda before, after: after > before),
    "monotone_down": monotone(lambda before, after: after < before),
    "lowest": lambda h, a: min(finite(h.points), default=UNKNOWN),
    "highest": lambda h, a: max(finite(h.points), default=UNKNOWN),
    "since": lambda h, a: float(h.step - h.edges[-1][0]) if h.edges else UNKNOWN,
    "interval": lambda h, a: float(h.edges[-1][0] - h.edges[-2][0]) if len(h.edges) > 1 else UNKNOWN,
}


@defines("onsets")
def onsets(h: History, a: dict[str, Any]) -> Value:
    size, unit = a["W"]
    if unit == "samples":
        last = [step for step, _, value in h.evaluations if value is not None][-int(size) :]
        return float(sum(step in last for step, _ in h.edges))
    return float(sum((h.step - step if unit == "steps" else h.time - time) < size for step, time in h.edges))
