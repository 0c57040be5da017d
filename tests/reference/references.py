"""The references of section 5: `baseline`, `usual` and `noise`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import calls
from . import statistics_of_points as st
from .policy import Event, Node, Rule
from .values import ABSENT, TOO_FEW, WARMING, Length, Part, Unknown, Value

if TYPE_CHECKING:
    from .streams import Env, Point, Streams

BY: dict[str, Callable[[list[float]], Value]] = {
    "mean": st.mean,
    "median": st.median,
    "min": lambda xs: min(xs) if xs else TOO_FEW,
    "max": lambda xs: max(xs) if xs else TOO_FEW,
}


def baseline(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Mean of the usable points with step in [first + M, first + M + N), fixed from then on.

    Known from step first + M + N − 1; or, with N and M in samples, of N points after the first M, known from the last
    of them. `from: EVENT` starts anew after each edge of the event, first + M being the step of its newest edge.
    """
    args = node.args[1]
    subject = args[0] if len(args) > 1 else node.subject
    if subject is None:
        raise ValueError("baseline without a subject")
    length = calls.length_of(streams, args[-1])
    points = streams.points(subject, env, i)
    if not points:
        return ABSENT
    start, offset = points[0].i, Length(0, length.unit)
    origin = node.named.get("from")
    if origin is not None and origin.kind == "name" and origin.args[0] in streams.policy.events:
        edges = streams.edges(origin, env, i)
        start = edges[-1] if edges else start
    elif origin is not None:
        offset = calls.length_of(streams, origin)
    by = node.named["by"].args[0] if "by" in node.named else "mean"
    chosen = _stretch(streams, points, streams.moments[start], offset, length, i)
    if isinstance(chosen, Unknown):
        return chosen
    usable = [p.value for p in chosen if not math.isnan(p.value) and (by != "mean" or math.isfinite(p.value))]
    return BY[by](usable)


def _stretch(
    streams: Streams, points: list[Point], start: Any, offset: Length, length: Length, i: int
) -> list[Point] | Unknown:
    now = streams.moments[i]
    if length.unit == "samples":
        after = [p for p in points if p.step >= start.step]
        if offset.unit == "samples":
            after = after[int(offset.amount) :]
        else:
            after = [p for p in after if p.step >= start.step + offset.amount]
        return after[: int(length.amount)] if len(after) >= length.amount else WARMING
    if length.unit == "steps":
        first = start.step + offset.amount
        if now.step < first + length.amount - 1:
            return WARMING
        return [p for p in points if first <= p.step < first + length.amount]
    if start.time is None or now.time is None:
        return ABSENT
    first = start.time + offset.amount
    if now.time - first < length.amount:
        return WARMING
    return [p for p in points if p.time is not None and first <= p.time < first + length.amount]


@dataclass
class Freezer:
    """One freezing condition, and how long it, taken by itself, has gone on since it last let a point in."""

    node: Node
    env: Env
    on: str | None
    so: bool = False  # its latest evaluation was true, or unknown though the reference was known
    since: int | None = None  # r, the moment at which it first froze since it last let a point in
    samples: int = 0

    def evaluate(self, streams: Streams, i: int, known: Callable[[int], bool]) -> None:
        if not streams.evaluated(self.node, self.env, i, self.on):
            return
        value = streams.value(self.node, self.env, i)
        self.so = known(i) if isinstance(value, Unknown) else value is True
        if self.so:
            self.samples += 1
            self.since = i if self.since is None else self.since

    def freezes(self, streams: Streams, i: int, limits: list[Part]) -> bool:
        """Whether it keeps the point at moment i out."""
        if self.so:
            self.since = i if self.since is None else self.since
            if not all(self._exceeds(streams, i, part) for part in limits):
                return True
        self.since, self.samples = None, 0
        return False

    def _exceeds(self, streams: Streams, i: int, part: Part) -> bool:
        assert self.since is not None
        if part.unit == "samples":
            return self.samples > part.amount
        age = streams.age(self.since, i, Length(part.amount, part.unit))
        if part.unit == "steps" and age is not None:
            age += 1
        return age is not None and age > part.amount


def _freezers(streams: Streams, node: Node, env: Env) -> list[Freezer]:
    """That of `unless`; else, in a rule, its `when` conditions; else, in an event, the event's own.

    Always without spans and `apart`, also where `unless` names an event.
    """
    unless = node.named.get("unless")
    if unless is not None:
        event = _event_of(streams, unless)
        if event is not None:
            return [Freezer(event.node, _env_of(event), None)]
        return [Freezer(unless, env, None)]
    if isinstance(env.home, Rule):
        return [Freezer(c.node, env._replace(stars=None), c.on) for c in env.home.clauses]
    if isinstance(env.home, Event):
        return [Freezer(env.home.node, _env_of(env.home), None)]
    raise ValueError("in a let `unless` is required")


def _event_of(streams: Streams, node: Node) -> Event | None:
    return streams.policy.events.get(node.args[0]) if node.kind == "name" else None


def _env_of(event: Event) -> Env:
    from .streams import Env

    return Env(event)


def _limits(streams: Streams, node: Node, env: Env, window: Length) -> list[Part]:
    """4 × W and twice each `for` and `after` of the rule or event in which it stands and of the event of `unless`."""
    limits = [Part(4 * window.amount, window.unit)]
    lengths: list[Any] = []
    if isinstance(env.home, Rule):
        for clause in env.home.clauses:
            lengths += clause.span or ()
            lengths += [rung.after for rung in clause.rungs if rung.after is not None]
        lengths += env.home.clear_for or ()
        lengths += env.home.clear_when_span or ()
    events = [env.home, _event_of(streams, node.named["unless"]) if "unless" in node.named else None]
    for event in events:
        if isinstance(event, Event):
            lengths += event.span or ()
    return limits + [Part(2 * part.amount, part.unit) for part in lengths]


def accepted(streams: Streams, node: Node, env: Env, before: int) -> list[Point]:
    """The accepted finite points of x at moments before that one."""
    x, window = node.args[1]
    key = ("accepted", node, env)
    if key not in streams.tracks:
        streams.tracks[key] = [0, _freezers(streams, node, env), []]
    track = streams.tracks[key]
    limits = _limits(streams, node, env, calls.length_of(streams, window))
    while track[0] < before:
        j = track[0]
        track[0] += 1
        for freezer in track[1]:
            freezer.evaluate(streams, j, lambda at: not isinstance(_chosen(streams, node, env, at), Unknown))
        for point in streams.points(x, env, j):
            if point.i == j and math.isfinite(point.value):
                kept_out = [freezer.freezes(streams, j, limits) for freezer in track[1]]  # each counts for itself
                track[2] += [] if any(kept_out) else [point]
    return [p for p in track[2] if p.i < before]


def _chosen(streams: Streams, node: Node, env: Env, i: int) -> list[float] | Unknown:
    """The accepted points in (q − W, q], q the newest accepted point before the closing step.

    Known once q − first + 1 ≥ W (once W are accepted) and there are five.
    """
    x, window = node.args[1]
    length = calls.length_of(streams, window)
    step = streams.moments[i].step
    points = [p for p in accepted(streams, node, env, i) if p.step < step]
    if not points:
        return ABSENT
    newest = points[-1]
    first = streams.points(x, env, i)[0]
    if length.unit == "samples":
        if len(points) < length.amount:
            return WARMING
        points = points[-int(length.amount) :]
    elif length.unit == "steps":
        if newest.step - first.step + 1 < length.amount:
            return WARMING
        points = [p for p in points if p.step > newest.step - length.amount]
    else:
        if newest.time is None or first.time is None:
            return ABSENT
        if newest.time - first.time < length.amount:
            return WARMING
        points = [p for p in points if p.time is not None and p.time > newest.time - length.amount]
    return [p.value for p in points] if len(points) >= 5 else TOO_FEW


def usual(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """What x usually is: the median of the accepted points."""
    xs = _chosen(streams, node, env, i)
    return xs if isinstance(xs, Unknown) else st.median(xs)


def noise(streams: Streams, node: Node, env: Env, i: int) -> Value:
    """Over the same accepted points, the greater of their mad and of σ."""
    xs = _chosen(streams, node, env, i)
    return xs if isinstance(xs, Unknown) else max(st.mad(xs), st.neighbours(xs))  # type: ignore[type-var]


CALLS: dict[str, Callable[..., Value]] = {"baseline": baseline, "usual": usual, "noise": noise}
