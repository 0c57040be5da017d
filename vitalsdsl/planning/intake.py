"""Which logged names feed which metrics, and which metrics are members of a family."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from vitalsdsl.language import rules
from vitalsdsl.language.scope import LOGGED_COUNTERS, Scope, fill_family, match_family
from vitalsdsl.nodes import base as nd

Join = Callable[[str], None]


@dataclass(slots=True)
class Intake:
    """One metric: of several logged names the one that comes first in time feeds it, fixed from then on."""

    metric: nd.MetricNode
    names: tuple[str, ...]
    reduce: str = "last"
    bound: str | None = None
    is_counter: bool = False
    """It is one of the run's own counters and sets no pace."""

    def take(self, repeats: list[float]) -> float:
        """What several points of one step come to."""
        if self.reduce == "last":
            return repeats[-1]
        if any(value != value for value in repeats):
            return math.nan
        if self.reduce == "mean":
            return math.fsum(repeats) / len(repeats) if all(map(math.isfinite, repeats)) else sum(repeats)
        return max(repeats) if self.reduce == "max" else min(repeats)


@dataclass(slots=True)
class _Watch:
    """A family in use: the members logged so far, and who wants to know of each."""

    family: str
    patterns: tuple[str, ...]
    joins: list[Join] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)

    def take(self, name: str) -> str | None:
        """What the stars stand for in a name that is a member and was none yet."""
        for pattern in self.patterns:
            star = match_family(pattern, name)
            if star is None or match_family(self.family, fill_family(self.family, star)) is None:
                continue
            if star not in self.stars:
                self.stars.append(star)
                return star
        return None


class Metrics:
    """The metrics of one run under one policy's names."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.nodes: dict[str, nd.MetricNode] = {}
        self.intakes: dict[str, Intake] = {}
        self.routes: dict[str, list[Intake]] = {}
        self._watches: dict[str, _Watch] = {}
        self._seen: list[str] = []
        self.counters = {name: self._counter(name, names) for name, names in LOGGED_COUNTERS.items() if names}

    def node(self, path: str) -> nd.MetricNode:
        """The node of a canonical name."""
        if path not in self.nodes:
            declared, names = self.declared(path)
            node = self.nodes[path] = nd.MetricNode(path)
            intake = Intake(node, names, declared.reduce if declared is not None else "last")
            self.intakes[path] = intake
            for name in names:
                self.routes.setdefault(name, []).append(intake)
        return self.nodes[path]

    def _counter(self, name: str, names: tuple[str, ...]) -> Intake:
        """A counter of the run: under its usual names, or those that the policy declares for it."""
        declared = self.scope.metrics.get(name)
        logged_as = names if declared is None else declared.logged
        reduce = "last" if declared is None else declared.reduce
        intake = Intake(nd.MetricNode(name), logged_as, reduce, is_counter=True)
        for logged in intake.names:
            self.routes.setdefault(logged, []).append(intake)
        return intake

    def declared(self, path: str) -> tuple[rules.Metric | None, tuple[str, ...]]:
        """The declaration of a canonical name, if it has one, and the names under which it is logged."""
        declared = self.scope.metrics.get(path)
        if declared is not None and not declared.family:
            return declared, declared.logged
        for metric in self.scope.metrics.values():
            star = match_family(metric.name, path) if metric.family else None
            if star is not None:
                return metric, tuple(fill_family(name, star) for name in metric.logged)
        return None, (path,)

    def same_as(self, path: str) -> set[str]:
        """The canonical names of what is one series with this metric whatever a run logs, itself among them: one file's
        metric under several namespaces, declared alike in each."""
        declared, _ = self.declared(path)
        if declared is None:
            return {path}
        star = match_family(declared.name, path) if declared.family else None
        same = {path}
        for metric in self.scope.metrics.values():
            if _as_declared(metric) == _as_declared(declared):
                same.add(fill_family(metric.name, star) if star is not None else metric.name)
        return same

    def watch(self, family: str, join: Join) -> None:
        """Have `join` called with what the stars stand for, for each member logged so far and to come."""
        watch = self._watches.get(family)
        if watch is None:
            watch = self._watches[family] = _Watch(family, self.patterns(family))
            for name in self._seen:
                watch.take(name)
        watch.joins.append(join)
        for star in list(watch.stars):
            join(star)

    @property
    def awaits_names(self) -> bool:
        """Whether names that are logged later can join a family."""
        return bool(self._watches)

    def patterns(self, family: str) -> tuple[str, ...]:
        """The shapes under which members are logged. `act/{0..3}/x` is a part of a declared `act/*/x`."""
        for metric in self.scope.metrics.values():
            if metric.family and _any_number(metric.name) == _any_number(family):
                return metric.logged
        return (family,)

    def see(self, name: str) -> bool:
        """A name is logged for the first time; whether it joined a family."""
        joined = False
        self._seen.append(name)
        for watch in list(self._watches.values()):
            star = watch.take(name)
            if star is not None:
                joined = True
                for join in list(watch.joins):
                    join(star)
        return joined

    def reads(self, name: str) -> bool:
        """Whether a logged name feeds a metric, or could be a member of a family in use."""
        return name in self.routes or any(
            match_family(pattern, name) is not None for watch in self._watches.values() for pattern in watch.patterns
        )

    def members(self, family: str) -> list[str]:
        """The canonical names of a family's members logged so far, in order of name."""
        watch = self._watches.get(family)
        return sorted(fill_family(family, star) for star in watch.stars) if watch is not None else []


def _as_declared(metric: rules.Metric) -> tuple[object, ...]:
    return metric.name.rpartition(".")[2], metric.logged, metric.reduce, metric.allow_nonfinite


def _any_number(path: str) -> str:
    """A family's path with each range written as a star."""
    return re.sub(r"\{\d+\.\.\d+\}", "*", path)
