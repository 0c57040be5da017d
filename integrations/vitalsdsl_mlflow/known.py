"""What a feed knows of a run's metrics: how many points it has given, the last of them, and those it holds back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sortedcontainers import SortedList

from vitalsdsl_mlflow.recent import Placed, Recent, placed
from vitalsdsl_mlflow.rows import LoggedPoint

REMEMBERED = 1_000
"""How many given points are remembered, over all metrics, so that a late point is told from one given before."""
MOST_OF_ONE = 64

MOST_FOLLOWED = 3
"""So many points of a metric in a row are taken as its latest ones, without a question for what lies between."""


class Metric:
    """One metric of the run. `is_whole`: all that the store has of it has been fetched."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.given = 0
        self.held = 0
        self.is_whole = False
        self.latest: Placed | None = None
        """What the store called the latest point when the metric was last fetched."""
        self.newest: Placed | None = None
        """The newest by time of its points that are given or held."""
        self.stride = 0
        """How many steps apart the points that were fetched last lie, if all alike and one at each; else 0."""
        self.followed = 0
        """How many latest points were taken as they were told, since some were fetched."""
        self.recent = Recent(key)
        self.forgotten: tuple[int, int] | None = None
        """Time and step of the newest given point that is not in `recent` any more."""

    def give(self, point: Placed, remembered: int) -> None:
        self.given += 1
        self.held -= 1
        self.recent.append(point)
        while len(self.recent) > remembered:
            old = self.recent.popleft()
            self.forgotten = max(self.forgotten or old[:2], old[:2])

    def may_be_given(self, point: Placed) -> bool:
        """Whether a point from before the newest given one may have been given: it was, or is too old to say."""
        return point in self.recent or (self.forgotten is not None and point[:2] <= self.forgotten)

    def is_behind(self) -> bool:
        """Whether its newest point by time is not that of the highest step: a resumed run, which the store's latest
        point then says nothing of."""
        newest, latest = self.newest, self.latest
        return newest is not None and latest is not None and newest.step < latest.step

    def fetched(self, points: Sequence[LoggedPoint]) -> None:
        """Learn from points that were fetched, by their steps, how far apart they lie."""
        apart = {later.step - earlier.step for earlier, later in zip(points, points[1:])}
        self.stride = apart.pop() if len(points) > MOST_FOLLOWED and len(apart) == 1 else 0
        self.followed = 0

    def follows(self, latest: Placed) -> bool:
        """Whether a new latest point is the next one where the metric has been logged at even steps, so that none lies
        between. Some of them at most: points of these steps are fetched soon after all, with those that came beside."""
        return (
            self.is_whole
            and self.latest is not None
            and self.followed < MOST_FOLLOWED
            and 0 < self.stride == latest.step - self.latest.step
            and latest.timestamp >= self.latest.timestamp
            and not self.is_behind()
        )

    def save(self) -> list[Any]:
        return [
            self.given,
            self.held,
            int(self.is_whole),
            _plain(self.latest),
            None if self.forgotten is None else list(self.forgotten),
            self.recent.save(),
        ]

    @classmethod
    def load(cls, key: str, saved: Sequence[Any]) -> Metric:
        metric = cls(key)
        metric.given, metric.held, is_whole, latest, forgotten, recent = saved
        metric.is_whole = bool(is_whole)
        metric.latest = _point_of(key, latest)
        metric.forgotten = None if forgotten is None else (forgotten[0], forgotten[1])
        metric.recent = Recent.load(key, recent)
        metric.newest = max(metric.recent, default=None)
        return metric


class Known:
    """All metrics of a run, and the points that were fetched and not given yet."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}
        self.held: SortedList[Placed] = SortedList()
        self.newest_given: Placed | None = None
        self.late = 0
        """How many points were fetched so far that came when later ones had been given."""

    def metric(self, key: str, *, is_whole: bool = False) -> Metric:
        """What is known of a metric. `is_whole`: if it is new, nothing of it has to be fetched."""
        if key not in self.metrics:
            self.metrics[key] = Metric(key)
            self.metrics[key].is_whole = is_whole
        return self.metrics[key]

    @property
    def remembered(self) -> int:
        return max(1, min(MOST_OF_ONE, REMEMBERED // max(1, len(self.metrics))))

    @property
    def count(self) -> int:
        """Points fetched in all."""
        return sum(metric.given for metric in self.metrics.values()) + len(self.held)

    @property
    def is_whole(self) -> bool:
        return all(metric.is_whole for metric in self.metrics.values())

    def is_late(self, point: Placed) -> bool:
        return self.newest_given is not None and point <= self.newest_given

    def hold(self, point: Placed, *, is_new: bool = False) -> bool:
        """Keep a point to be given, unless it is held or was given. `is_new`: the store says that it just came."""
        metric = self.metric(point.key)
        if self.is_late(point):
            if point in metric.recent or (not is_new and metric.may_be_given(point)):
                return False
            if point in self.held:
                return False
            self.late += 1
        elif point in self.held:
            return False
        self.held.add(point)
        metric.held += 1
        if metric.newest is None or point > metric.newest:
            metric.newest = point
        return True

    def is_newer(self, latest: Mapping[str, LoggedPoint]) -> bool:
        """Whether these latest points are from before what is known: the store's own only ever move on."""
        for key, metric in self.metrics.items():
            if metric.latest is not None and (key not in latest or _rank(placed(latest[key])) < _rank(metric.latest)):
                return True
        return False

    def late_of(self, key: str) -> int:
        """How many held points of a metric are late."""
        newest = self.newest_given
        return 0 if newest is None else sum(point.key == key for point in self.held.irange(maximum=newest))

    def spans(self) -> dict[str, tuple[int, int]]:
        """The lowest and the highest step of the held points of each metric."""
        found: dict[str, tuple[int, int]] = {}
        for point in self.held:
            low, high = found.get(point.key, (point.step, point.step))
            found[point.key] = min(low, point.step), max(high, point.step)
        return found

    def take(self) -> Placed:
        """The earliest point that is held, to be given."""
        point: Placed = self.held.pop(0)
        self.metrics[point.key].give(point, self.remembered)
        if not self.is_late(point):
            self.newest_given = point
        return point

    def put_back(self, points: Sequence[Placed], newest_given: Placed | None) -> None:
        """The last points that were taken are not given yet after all."""
        for point in reversed(points):
            metric = self.metrics[point.key]
            metric.given -= 1
            metric.held += 1
            if metric.recent.newest(1) == [point]:
                metric.recent.pop()
            self.held.add(point)
        self.newest_given = newest_given

    def save(self, tops: Mapping[str, int]) -> dict[str, Any]:
        return {
            "given": None if self.newest_given is None else [self.newest_given.key, _plain(self.newest_given)],
            "metrics": {key: [*metric.save(), tops.get(key)] for key, metric in self.metrics.items()},
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> tuple[Known, dict[str, int]]:
        """What was saved, with the highest steps. Held points are fetched anew: their metrics are not whole."""
        known, tops = cls(), {}
        if saved["given"] is not None:
            known.newest_given = _point_of(*saved["given"])
        for key, (*metric, top) in saved["metrics"].items():
            known.metrics[key] = loaded = Metric.load(key, metric)
            loaded.is_whole = loaded.is_whole and not loaded.held
            loaded.held = 0
            if top is not None:
                tops[key] = top
        return known, tops


def _rank(point: Placed) -> tuple[int, int, float]:
    """By what a store calls a point the latest."""
    return point.step, point.timestamp, point.value


def _plain(point: Placed | None) -> list[Any] | None:
    if point is None:
        return None
    value: float | str = "nan" if point.is_nan else point.value if math.isfinite(point.value) else str(point.value)
    return [point.timestamp, point.step, value]


def _point_of(key: str, plain: Sequence[Any] | None) -> Placed | None:
    if plain is None:
        return None
    return placed(LoggedPoint(key, float(plain[2]), plain[1], plain[0]))
