"""What a run's latest points tell: which of its metrics have something new, and at which steps."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from typing import NamedTuple

from vitalsdsl_mlflow.fleet import Wish
from vitalsdsl_mlflow.known import Known, Metric
from vitalsdsl_mlflow.recent import Placed, placed
from vitalsdsl_mlflow.rows import LoggedPoint
from vitalsdsl_mlflow.stores import Snapshot

TOLD_S = 2.5
"""What a search said of a run longer ago, in seconds, says too little: of metrics that are fetched after it, points would
be given that the others have, too, and nobody has fetched. (It is half of the time for which points are held back.)"""

HANDED_S = 60.0
"""What has been handed to a reading that comes so many seconds later is asked for anew."""


class Move(NamedTuple):
    """A metric that may have something new: the lowest and highest step of its points that are held, and whether its
    latest point is simply the next one."""

    metric: Metric
    latest: Placed
    held: tuple[int, int] | None
    is_next: bool

    def steps(self, look_back: int) -> tuple[int, int] | None:
        """The steps at which there may be points that are not known, and those of some that are; None where steps do not
        tell."""
        steps = [*(self.held or ()), *(point.step for point in self.metric.recent.newest(look_back))]
        all_on_one = len(steps) > 1 and min(steps) == max(steps) == self.latest.step
        if not steps or all_on_one or self.metric.is_behind():
            return None
        return min(steps), max(max(steps), self.latest.step)


def moves(known: Known, run: Snapshot) -> list[Move]:
    """The metrics of a run that stands like this of which there may be something new."""
    found, spans = [], None
    for key, point in run.latest.items():
        metric, latest = known.metric(key), placed(point)
        if metric.latest == latest and not metric.is_behind():
            continue
        spans = known.spans() if spans is None else spans
        found.append(Move(metric, latest, spans.get(key), metric.follows(latest)))
    return found


class Told:
    """What a look at many runs said of one: how it stands, and points that were asked for in its stead."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.may_audit = True
        self._snapshot: Snapshot | None = snapshot
        self._at = clock.monotonic()
        self._handed: dict[str, tuple[Wish, Sequence[LoggedPoint]]] = {}

    def tell(self, snapshot: Snapshot, may_audit: bool) -> None:
        self._snapshot, self._at, self.may_audit = snapshot, clock.monotonic(), may_audit
        self._handed.clear()

    def hand(self, wish: Wish, points: Sequence[LoggedPoint]) -> None:
        self._handed[wish.key] = wish, points

    def points(self, key: str, first: int, last: int) -> Sequence[LoggedPoint] | None:
        """All points of a metric at these steps; None where they have not been handed."""
        wish, points = self._handed.get(key, (None, ()))
        if wish is None or first < wish.first or last > wish.last:
            return None
        return [point for point in points if first <= point.step <= last]

    def still(self, known: Known) -> Snapshot | None:
        """How the run stands, if that will do: it is new, or all that it tells of has been handed, and no more than it
        tells of, and nothing is left to be asked."""
        age = clock.monotonic() - self._at
        if self._snapshot is None or age < TOLD_S:
            return self._snapshot
        if age > HANDED_S or self.may_audit or not known.is_whole:
            return None
        has_all = all(move.is_next or move.metric.key in self._handed for move in moves(known, self._snapshot))
        return self._snapshot if has_all else None

    def forget(self) -> None:
        """A reading has made use of it."""
        self._snapshot = None
        self._handed.clear()
