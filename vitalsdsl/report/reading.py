"""The log read in four layers: how high, where to, how unsteady, and what moves with what. The last points of a run.

Trends and scatters are the language's own functions (`vitals functions rising`), so a report never says "rising" of
what a rule calls level.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitalsdsl.ops.base import registry, stream
from vitalsdsl.report.curve import Curve

WINDOW = 100
"""Points of a metric that trend, scatter and correlation look at; fewer where a run has fewer."""

FEWEST = 8
"""Points below which nothing is said of a trend."""

RELATED = 0.5
"""How strong a correlation of changes is worth a line; over 30 pairs and more this is hardly chance."""

NEWEST = 20
"""Points, at most, whose median is where a metric stands: one point means nothing, and a tenth of a run is not its end."""

PAIRS = (
    ("loss", "grad_norm"),
    ("loss", "lr"),
    ("grad_norm", "lr"),
    ("loss", "val_loss"),
    ("grad_norm", "param_norm"),
    ("loss", "loss_scale"),
)
"""What leaves a trace in what: trouble in one of loss, gradient and learning rate shows in the other two."""


@dataclass(frozen=True)
class Standing:
    """One metric at the end of a run. `level` is the median of its newest points, `trend` rising, falling, level or empty
    where there are too few points, `change` how far it went over the window relative to its level, `scatter` the standard
    deviation about its own line relative to its level; NaN where either cannot be said. `points` is the window's size."""

    metric: str
    last: float
    level: float
    lowest: float
    lowest_step: int
    highest: float
    highest_step: int
    trend: str
    change: float
    scatter: float
    points: int
    nonfinite: int


@dataclass(frozen=True)
class Relation:
    """How much the changes of two metrics went together over the newest `pairs` steps that had both, -1 to 1; NaN where one
    of them changed evenly or not at all."""

    first: str
    second: str
    correlation: float
    pairs: int

    @property
    def is_strong(self) -> bool:
        return abs(self.correlation) >= RELATED


def standings(curves: Mapping[str, Curve]) -> list[Standing]:
    """Where each metric stands."""
    return [_standing(metric, curve) for metric, curve in curves.items() if curve.count]


def _standing(metric: str, curve: Curve) -> Standing:
    values = [value for _, value in curve.tail if math.isfinite(value)][-WINDOW:]
    newest = sorted(values[-max(1, min(NEWEST, curve.count // 10)) :])
    level = (newest[(len(newest) - 1) // 2] + newest[len(newest) // 2]) / 2 if newest else math.nan
    n = len(values)
    trend, change, scatter = "", math.nan, math.nan
    if n >= FEWEST:
        trend = next((word for word in ("rising", "falling") if _newest(word, values)), "level")
        size = abs(sum(values) / n)
        if size > 1e-300:
            change = _newest("slope", values) * (n - 1) / size
            scatter = _newest("resid_std", values) / size
    last = curve.tail[-1][1] if curve.tail else math.nan
    return Standing(
        metric, last, level, *curve.lowest, *curve.highest, trend, change, scatter, n, len(curve.nonfinite)
    )  # fmt: skip


def relations(curves: Mapping[str, Curve]) -> list[Relation]:
    """How the changes of those metrics go together that are known to."""
    found = []
    for first, second in PAIRS:
        if first in curves and second in curves:
            pairs = _changes(curves[first].tail, curves[second].tail)[-WINDOW:]
            if len(pairs) >= FEWEST:
                found.append(Relation(first, second, _newest("corr", pairs), len(pairs)))
    return found


def _newest(function: str, points: Sequence[Any]) -> float:
    """A function of the language over all these points, at the last of them."""
    windowed: type[Any] = registry()[function]
    value: float = stream(windowed, points, W=(len(points), "samples"))[-1]
    return value


def _changes(first: Iterable[tuple[int, float]], second: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
    """The changes of two metrics from each step at which both have a point to the next."""
    a, b = dict(first), dict(second)
    both = [(a[step], b[step]) for step in sorted(a.keys() & b.keys())]
    return [(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in zip(both, both[1:])]
