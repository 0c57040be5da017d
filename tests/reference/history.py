"""The run as seen so far: closed steps and their points, names, families and late points (section 3 of the page)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from .policy import Metric, Policy
from .values import as_point


@dataclass
class Moment:
    """One closing of a step; or, with `waited`, the one more evaluation of `stalled` at the newest closed step."""

    step: float
    time: float | None
    logged: dict[str, list[float]] = field(default_factory=dict)
    attempt: int = 0
    waited: float | None = None
    heard: float = -math.inf  # the latest time heard of before the next moment, if a rewind came between


class Feed:
    """Rows in order; a step closes when a later one arrives, before a rewind and at the end."""

    def __init__(self) -> None:
        self.closed: list[Moment] = []
        self.open: Moment | None = None
        self.attempt = 0
        self.newest: dict[str, float] = {}  # logged name -> own step of its newest point
        self.late: dict[str, list[float]] = {}  # late points that wait for a step to be open
        self.heard = -math.inf

    def row(self, row: dict[str, Any]) -> None:
        """Several points of one step are one step, whether they come in one row or in two."""
        step = float(row["step"])
        time = as_point(row.get("_time"))
        if time is not None:
            self.heard = max(self.heard, time)
        closed_until = self.closed[-1].step if self.closed else -math.inf
        if self.open is not None and step > self.open.step:
            self.close()
        if self.open is None and step > closed_until:
            self.open = Moment(step, None, self.late, self.attempt)
            self.late = {}
        at = self.open
        if at is not None and step == at.step and time is not None:
            at.time = time if at.time is None else max(at.time, time)
        for name, raw in row.items():
            value = as_point(raw)
            if name in ("step", "_time") or value is None:
                continue
            late = at is None or step < at.step  # counts only if newer than its own metric's newest point
            if late and step <= self.newest.get(name, -math.inf):
                continue
            self.newest[name] = step
            (self.late if at is None else at.logged).setdefault(name, []).append(value)

    def close(self) -> None:
        """A step's time is the latest of its points' times, never before the previous step's."""
        if self.open is None:
            return
        before = self.closed[-1].time if self.closed else None
        if before is not None:
            self.open.time = before if self.open.time is None else max(before, self.open.time)
        self.closed.append(self.open)
        self.open = None

    def rewind(self, k: float) -> bool:
        """Everything is as if no point after k had been seen; false where k is at or above the newest closed step."""
        self.close()
        self.attempt += 1
        if not self.closed or k >= self.closed[-1].step:
            return False
        self.closed = [m for m in self.closed if m.step <= k]
        if self.closed:
            self.closed[-1].heard = self.heard
        self.newest = {name: m.step for m in self.closed for name in m.logged}
        self.late = {}
        return True


def with_waits(closed: list[Moment], lengths: list[float]) -> list[Moment]:
    """`stalled for D` is evaluated once more at the newest closed step when D has gone by without another."""
    moments: list[Moment] = []
    for i, moment in enumerate(closed):
        if i and moment.time is not None and closed[i - 1].time is not None:
            last = closed[i - 1]
            gap = moment.time - max(last.time or 0.0, last.heard)
            for length in lengths:
                if gap >= length:
                    moments.append(Moment(last.step, last.time, {}, moment.attempt, length))
        moments.append(moment)
    return moments


def pattern(family: str) -> re.Pattern[str]:
    """A path with `*` or `{0..3}` at the end of a segment; each stands for one non-empty piece without `/`."""
    out = ""
    for piece in re.split(r"(\*|\{\d+\.\.\d+\})", family):
        if piece == "*":
            out += "([^/]+)"
        elif piece.startswith("{"):
            low, high = map(int, piece[1:-1].split(".."))
            out += "(" + "|".join(str(n) for n in range(low, high + 1)) + ")"
        else:
            out += re.escape(piece)
    return re.compile(out)


def concrete(family: str, stars: tuple[str, ...]) -> str:
    """The member's name: each `*` replaced by what it stands for."""
    values = iter(stars)
    return re.sub(r"\*|\{\d+\.\.\d+\}", lambda _: next(values), family)


class History:
    """Points by canonical name over a list of moments."""

    def __init__(self, policy: Policy, moments: list[Moment]) -> None:
        self.moments = moments
        self.seen: dict[str, int] = {}  # logged name -> moment of its first point
        for i, moment in enumerate(moments):
            for name in moment.logged:
                self.seen.setdefault(name, i)
        self.declared: dict[str, Metric] = dict(policy.metrics)
        for metric in policy.metrics.values():
            if "*" in metric.name or "{" in metric.name:
                self._expand(metric)
        self.points: dict[str, list[tuple[int, float]]] = {}
        for name in {*self.declared, *self.seen}:
            self.points[name] = self._read(name)
        self.at = {(name, i) for name, points in self.points.items() for i, _ in points}
        self.names = sorted(n for n, p in self.points.items() if p)

    def _expand(self, metric: Metric) -> None:
        """A family too: `metric act/*/absmax = "activations/*/max_abs"`, as many `*` on both sides."""
        for logged in metric.logged:
            for name in self.seen:
                found = pattern(logged).fullmatch(name)
                if found:
                    member = concrete(metric.name, found.groups())
                    names = [concrete(other, found.groups()) for other in metric.logged]
                    self.declared.setdefault(
                        member,
                        Metric(member, names, metric.every, metric.stale, metric.reduce, metric.allow_nonfinite),
                    )

    def _read(self, name: str) -> list[tuple[int, float]]:
        """The name that comes first in time wins (ties: list order) and is fixed for the run."""
        metric = self.declared.get(name) or Metric(name, [name])
        known = [logged for logged in metric.logged if logged in self.seen]
        if not known:
            return []
        chosen = min(known, key=lambda logged: (self.seen[logged], metric.logged.index(logged)))
        return [
            (i, reduced(metric.reduce, moment.logged[chosen]))
            for i, moment in enumerate(self.moments)
            if moment.logged.get(chosen)
        ]

    def of(self, name: str, i: int) -> list[tuple[int, float]]:
        """The points of a metric at or before moment i."""
        return [p for p in self.points.get(name, ()) if p[0] <= i]

    def has_point(self, name: str, i: int) -> bool:
        return (name, i) in self.at

    def first(self, name: str) -> int | None:
        found = self.points.get(name)
        return found[0][0] if found else None


def reduced(how: str, values: list[float]) -> float:
    """Several points of one metric at one open step: `reduce`, by default the last to arrive."""
    if how == "last":
        return values[-1]
    if any(math.isnan(v) for v in values):
        return math.nan
    if how == "mean":
        return sum(values) / len(values) if not all(map(math.isfinite, values)) else math.fsum(values) / len(values)
    return max(values) if how == "max" else min(values)
