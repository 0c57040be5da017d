"""The functions of section 5 that look at points in a window or at all of them; and quantifiers over a family."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from . import statistics_of_points as st
from .policy import Node
from .values import (
    ABSENT,
    NONFINITE,
    TOO_FEW,
    WARMING,
    Length,
    Unknown,
    Value,
    all_of,
    any_of,
    divide,
    elementwise,
    logarithm,
    settle,
)

if TYPE_CHECKING:
    from .streams import Env, Point, Streams


def length_of(streams: Streams, node: Node, unit: str = "steps") -> Length:
    """A window: a length, a length param, or a bare number, which means steps."""
    if node.kind == "length":
        return node.args[0]  # type: ignore[no-any-return]
    if node.kind == "num":
        return Length(node.args[0], unit)
    param = streams.policy.params[node.args[0]]
    return param if isinstance(param, Length) else Length(param, unit)


def in_window(streams: Streams, points: Sequence[Point], i: int, length: Length) -> list[Point] | Unknown:
    """The points of x with step in (s − W, s], its last W points, or those with time in (t − W, t].

    A step window is known once its span has been lived, s − first + 1 ≥ W with first the step of x's first point
    (time windows likewise), a sample window once it holds that many points.
    """
    if not points:
        return ABSENT
    now = streams.moments[i]
    if length.unit == "samples":
        return list(points[-int(length.amount) :]) if len(points) >= length.amount else WARMING
    if length.unit == "steps":
        if now.step - points[0].step + 1 < length.amount:
            return WARMING
        return [p for p in points if now.step - length.amount < p.step <= now.step]
    if now.time is None or points[0].time is None:
        return ABSENT
    if now.time - points[0].time < length.amount:
        return WARMING
    return [p for p in points if p.time is not None and now.time - length.amount < p.time <= now.time]


def finite(points: Sequence[Point]) -> list[Point]:
    """Functions over many points drop NaN, and ±inf too except in `min max median quantile`."""
    return [p for p in points if math.isfinite(p.value)]


def numbers(points: Sequence[Point]) -> list[float]:
    """What `min max median quantile` take: all but NaN."""
    return [p.value for p in points if not math.isnan(p.value)]


def _windowed(usable: Callable[[list[Point]], Any], statistic: Callable[[Any], Value]) -> Callable[..., Value]:
    def run(streams: Streams, node: Node, env: Env, i: int) -> Value:
        x, *_, window = node.args[1]
        points = in_window(streams, streams.points(x, env, i), i, length_of(streams, window))
        return points if isinstance(points, Unknown) else statistic(usable(points))

    return run


def _values(points: list[Point]) -> list[float]:
    return [p.value for p in finite(points)]


def _pairs(points: list[Point]) -> tuple[list[float], list[float]]:
    found = finite(points)
    return [p.step for p in found], [p.value for p in found]


def _extreme(choose: Callable[[list[float]], float]) -> Callable[[list[float]], Value]:
    return lambda xs: choose(xs) if xs else TOO_FEW


def count(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Usable points in W; without a window since the start, 0 before the first."""
    points = streams.points(node.args[1][0], env, i)
    if len(node.args[1]) == 1:
        return float(len(finite(points)))
    window = in_window(streams, points, i, length_of(streams, node.args[1][1]))
    return window if isinstance(window, Unknown) else float(len(finite(window)))


def quantile(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Linear interpolation between order statistics."""
    x, q, window = node.args[1]
    points = in_window(streams, streams.points(x, env, i), i, length_of(streams, window))
    if isinstance(points, Unknown):
        return points
    place = streams.value(q, env, i)
    return place if isinstance(place, Unknown) else st.quantile(numbers(points), Fraction(repr(place)))


def now(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """x now: its value at its latest evaluation."""
    return streams.latest_value(node, env, i)


def delta(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """x at its newest point minus x at the point before; or x now minus `x before D`."""
    x, *window = node.args[1]
    if not window:
        points = streams.points(x, env, i)
        if len(points) < 2:
            return TOO_FEW
        a, b = points[-1].value, points[-2].value
        return NONFINITE if math.isnan(a) or math.isnan(b) else settle(a - b, (a, b))
    length = length_of(streams, window[0])
    if length.unit == "samples":
        points = streams.points(x, env, i)
        newest: Value = points[-1].value if points else ABSENT
        newest = NONFINITE if not isinstance(newest, Unknown) and math.isnan(newest) else newest
    else:
        newest = now(streams, x, env, i)
    return elementwise(lambda a, b: a - b, newest, streams.before(x, env, i, length))


def growth(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """delta(x, D) / abs(x before D)."""
    x, window = node.args[1]
    before = streams.before(x, env, i, length_of(streams, window))
    return elementwise(lambda a, b: divide(a, abs(b)), delta(streams, node, env, i), before)


def zscore(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """(x − median) / mad of the finite points in [p − W, p), p being x's newest point (samples: the W before it)."""
    x, window = node.args[1]
    points = streams.points(x, env, i)
    if not points:
        return ABSENT
    length = length_of(streams, window)
    newest, before = points[-1], points[:-1]
    if length.unit == "samples":
        if len(before) < length.amount:
            return WARMING
        before = before[-int(length.amount) :]
    elif length.unit == "steps":
        if newest.step - points[0].step < length.amount:
            return WARMING
        before = [p for p in before if p.step >= newest.step - length.amount]
    else:
        if newest.time is None or points[0].time is None:
            return ABSENT
        if newest.time - points[0].time < length.amount:
            return WARMING
        before = [p for p in before if p.time is not None and p.time >= newest.time - length.amount]
    if not math.isfinite(newest.value):
        return NONFINITE
    xs = [p.value for p in finite(before)]
    if len(xs) < 5:
        return TOO_FEW
    return elementwise(lambda x, m, s: divide(x - m, s), newest.value, st.median(xs), st.mad(xs))


def ema(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """N in steps; known once s − first + 1 ≥ N."""
    x, n = node.args[1]
    points = streams.points(x, env, i)
    amount = length_of(streams, n).amount
    if not points:
        return ABSENT
    if streams.moments[i].step - points[0].step + 1 < amount:
        return WARMING
    return st.ema(*_pairs(points), amount)


def _halves(streams: Streams, node: Node, env: Env, i: int) -> tuple[float, float, float] | Unknown:
    """Halves A (step ≤ s − W/2; by samples the first half, rounded down, of the usable points) and B."""
    x, window = node.args[1]
    length = length_of(streams, window)
    points = in_window(streams, streams.points(x, env, i), i, length)
    if isinstance(points, Unknown):
        return points
    usable = finite(points)
    now = streams.moments[i]
    if length.unit == "samples":
        a = usable[: len(usable) // 2]
    elif length.unit == "steps":
        a = [p for p in usable if p.step <= now.step - length.amount / 2]
    else:
        a = [p for p in usable if (p.time or 0.0) <= (now.time or 0.0) - length.amount / 2]
    return st.trend([p.value for p in a], [p.value for p in usable[len(a) :]])


def _trend(test: Callable[[float, float], bool]) -> Callable[..., Value]:
    def run(streams: Streams, node: Node, env: Env, i: int) -> Value:
        found = _halves(streams, node, env, i)
        return found if isinstance(found, Unknown) else test(found[0], found[1])

    return run


def flat(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """abs(d) ≤ max(3 se, tol × abs(median A))."""
    found = _halves(streams, node, env, i)
    if isinstance(found, Unknown):
        return found
    tol = streams.value(node.named["tol"], env, i) if "tol" in node.named else 0.02
    if isinstance(tol, Unknown):
        return tol
    d, se, middle = found
    return abs(d) <= max(3 * se, tol * abs(middle))


def _monotone(test: Callable[[float, float], bool]) -> Callable[..., Value]:
    """Of the last n points each but the first is above (below) the one before; unknown if one is NaN."""

    def run(streams: Streams, node: Node, env: Env, i: int) -> Value:
        x, window = node.args[1]
        n = int(length_of(streams, window, "samples").amount)
        points = streams.points(x, env, i)
        if len(points) < n:
            return TOO_FEW
        xs = [p.value for p in points[-n:]]
        if any(math.isnan(x) for x in xs):
            return NONFINITE
        return all(test(a, b) for a, b in itertools.pairwise(xs))

    return run


def _ever(choose: Callable[[list[float]], float]) -> Callable[..., Value]:
    """Extreme of the finite points since the start."""

    def run(streams: Streams, node: Node, env: Env, i: int) -> Value:
        xs = [p.value for p in finite(streams.points(node.args[1][0], env, i))]
        return choose(xs) if xs else ABSENT

    return run


def since(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Steps since its newest edge, unknown before one."""
    edges = streams.edges(node.args[1][0], env, i)
    return streams.moments[i].step - streams.moments[edges[-1]].step if edges else ABSENT


def interval(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Steps between its two newest edges."""
    points = streams.points(node, env, i)
    return points[-1].value if points else ABSENT


def onsets(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Number of edges in W, known from the start."""
    event, window = node.args[1]
    length = length_of(streams, window)
    edges = streams.edges(event, env, i)
    if length.unit == "samples":
        inner = streams.policy.events[event.args[0]].node
        recent = streams.evaluations(inner, env, i)[-int(length.amount) :]
        return float(sum(e in recent for e in edges))
    ages = [streams.age(e, i, length) for e in edges]
    return float(sum(a is not None and a < length.amount for a in ages))


def fraction(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Share of the known evaluations in W at which cond was true; warm like a window."""
    cond, window = node.args[1]
    points = in_window(streams, streams.points(cond, env, i), i, length_of(streams, window))
    if isinstance(points, Unknown):
        return points
    return sum(p.value is True for p in points) / len(points) if points else TOO_FEW


def corr(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Pearson, over steps at which both have a point."""
    x, y, window = node.args[1]
    ys = {p.i: p.value for p in streams.points(y, env, i)}
    both = [p for p in streams.points(x, env, i) if p.i in ys]
    points = in_window(streams, both, i, length_of(streams, window))
    if isinstance(points, Unknown):
        return points
    usable = [p for p in finite(points) if math.isfinite(ys[p.i])]
    return st.corr([p.value for p in usable], [ys[p.i] for p in usable])


def surely(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """True where COND is true, false where it is false or unknown."""
    return streams.value(node.args[1][0], env, i) is True


def _element(function: Callable[..., float]) -> Callable[..., Value]:
    def run(streams: Streams, node: Node, env: Env, i: int) -> Value:
        return elementwise(function, *(streams.value(a, env, i) for a in node.args[1]))

    return run


def over_family(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """The argument is taken member by member; unknown members are left out of the numbers.

    `any`, `all` are Kleene; all unknown is unknown; a quantifier over an empty family is unknown.
    """
    name, args = node.args
    if name == "share":
        return share(streams, node, env, i)
    members = streams.joined(args[0], i)
    values = [streams.value(args[0], env._replace(stars=stars), i) for stars in members]
    known = [v for v in values if not isinstance(v, Unknown)]
    if not known:
        return values[0] if values else ABSENT
    if name == "any":
        return any_of(values)
    if name == "all":
        return all_of(values)
    if name == "count":
        return float(sum(v is True for v in known))
    if name in ("min", "max"):
        return min(known) if name == "min" else max(known)
    if name == "median":
        return st.median(known)
    if not all(map(math.isfinite, known)):
        return settle(sum(known), known)
    return st.mean(known) if name == "mean" else st.total(known)


def share(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """sum F / sum G, unknown until every member known so far has reported at this step."""
    sums: list[Value] = []
    for part in (node.args[1][0], node.named["of"]):
        members = [env._replace(stars=stars) for stars in streams.joined(part, i)]
        if not members or not all(streams.evaluated(part, member, i) for member in members):
            return ABSENT
        sums.append(elementwise(lambda *xs: math.fsum(xs), *(streams.value(part, member, i) for member in members)))
    return elementwise(divide, *sums)


CALLS: dict[str, Callable[..., Value]] = {
    "mean": _windowed(_values, st.mean),
    "median": _windowed(numbers, st.median),
    "min": _windowed(numbers, _extreme(min)),
    "max": _windowed(numbers, _extreme(max)),
    "sum": _windowed(_values, st.total),
    "std": _windowed(_values, st.std),
    "var": _windowed(_values, st.var),
    "cv": _windowed(_values, st.cv),
    "mad": _windowed(_values, st.mad),
    "slope": _windowed(_pairs, lambda pairs: st.slope(*pairs)),
    "resid_std": _windowed(_pairs, lambda pairs: st.resid_std(*pairs)),
    "count": count,
    "quantile": quantile,
    "delta": delta,
    "growth": growth,
    "zscore": zscore,
    "ema": ema,
    "rising": _trend(lambda d, se: d > 3 * se and d > 0),
    "falling": _trend(lambda d, se: -d > 3 * se and d < 0),
    "flat": flat,
    "monotone_up": _monotone(lambda a, b: b > a),
    "monotone_down": _monotone(lambda a, b: b < a),
    "lowest": _ever(min),
    "highest": _ever(max),
    "since": since,
    "interval": interval,
    "onsets": onsets,
    "fraction": fraction,
    "corr": corr,
    "surely": surely,
    "abs": _element(abs),
    "log": _element(logarithm),
    "exp": _element(math.exp),
    "sqrt": _element(math.sqrt),
    "greatest": _element(lambda *xs: max(xs)),
    "least": _element(lambda *xs: min(xs)),
    "clamp": _element(lambda x, low, high: min(max(x, low), high)),
}
