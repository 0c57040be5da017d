"""Survey: what runs logged, in one pass over their rows: under which names, how often, and what the values were like.

It takes as much memory as there are names, however many points: of each metric up to 2,048 values are kept, drawn by lot
with a fixed seed. So figures that come of ranks (median, scatter, shares) are exact up to that many points, and of a
sample beyond; counts, extremes and the steps at which they stood are always exact.
"""

from __future__ import annotations

import math
import random
import statistics
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vitalsdsl.ground.points import Rewind, Row, RunInfo

KEPT = 2_048
"""How many values of a metric are kept."""

KEPT_DISTANCES = 512

MOST_NAMES = 20_000
"""Of one run: further ones are counted, and not looked at."""

REGULAR = 0.9
"""The share of distances that the usual one has, give or take a tenth, where a metric comes regularly."""

NORMAL = 1.4826
"""What the median absolute deviation is multiplied by to be the standard deviation where values are normal."""


class Lot:
    """A sample of numbers: all of them while they are few, else that many drawn by lot, each as likely as any other.

    After J. S. Vitter, Random Sampling with a Reservoir (1985), algorithm R. `total` is how many were given.
    """

    __slots__ = ("_draw", "_seed", "kept", "size", "total")

    def __init__(self, size: int, seed: str = "") -> None:
        self.size = size
        self.total = 0
        self.kept = array("d")
        self._seed = seed
        self._draw: Callable[[], float] | None = None

    def add(self, value: float) -> None:
        self.total += 1
        if len(self.kept) < self.size:
            self.kept.append(value)
        else:
            place = int(self.draw() * self.total)
            if place < self.size:
                self.kept[place] = value

    def draw(self) -> float:
        """The next of its random numbers, made only for those who draw: a generator is larger than most samples."""
        if self._draw is None:
            self._draw = random.Random(self._seed).random
        return self._draw()

    def joined(self, other: Lot) -> Lot:
        """A sample of both together: each gives as many as its share of all the numbers comes to."""
        out = Lot(self.size, f"{self.total}/{other.total}")
        out.total = self.total + other.total
        mine, theirs = array("d", self.kept), array("d", other.kept)
        if len(mine) + len(theirs) <= self.size:
            out.kept = mine + theirs
            return out
        while len(out.kept) < self.size and (mine or theirs):
            source = mine if (out.draw() * out.total < self.total and mine) or not theirs else theirs
            place = int(out.draw() * len(source))
            source[place], source[-1] = source[-1], source[place]
            out.kept.append(source.pop())
        return out


@dataclass(frozen=True)
class Cadence:
    """How often a metric comes. `every` is the usual distance of its points in steps: the one that most have, or the
    median where none has half of them; NaN where it came at fewer than two steps. `is_regular`: nine in ten distances are
    that, give or take a tenth. `shortest` and `longest` are the extremes of all distances, in steps.
    """

    every: float = math.nan
    is_regular: bool = False
    longest: float = math.nan
    shortest: float = math.nan

    def __str__(self) -> str:
        """`every 10 steps`.

        >>> str(Cadence(10, True, 10)), str(Cadence(500, False, 9000)), str(Cadence())
        ('every 10 steps', 'about every 500 steps', 'at one step')
        """
        if math.isnan(self.every):
            return "at one step"
        steps = "step" if self.every == 1 else f"{self.every:g} steps"
        return f"{'every' if self.is_regular else 'about every'} {steps}"


@dataclass(frozen=True)
class MetricSurvey:
    """What one metric was like in a run, or in several together.

    `points` counts all that was logged, `nans` and `infinities` what of it was no finite number; the values that a rewind
    undid are among them. `first` and `last` are its first and its newest step, `order` its place among the run's names in
    the order of coming: names of one step have one order. `low` and `high` are the extremes of the finite values, with the
    steps at which each stood first. `scatter` is 1.4826 x the median absolute deviation from the median, in the metric's
    unit: one spike, or a hundred, leave it as it is. `percentiles` are the 101 values from the lowest to the highest by
    hundredths. All these are NaN (and there are no percentiles) without a finite value. `are_whole`: all finite values are
    integers.
    """

    name: str
    points: int
    nans: int
    infinities: int
    first: int
    last: int
    order: int
    cadence: Cadence
    low: float
    low_step: int
    high: float
    high_step: int
    scatter: float
    are_whole: bool
    percentiles: Sequence[float] = field(repr=False, default=())
    runs: int = 1
    """In how many runs it was logged."""

    @property
    def finite(self) -> int:
        return self.points - self.nans - self.infinities

    @property
    def median(self) -> float:
        """The median of the finite values, NaN without one."""
        return self.percentiles[50] if self.percentiles else math.nan

    @property
    def sign(self) -> int:
        """1 where all finite values are above zero, -1 where all are below, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0

    def quantile(self, q: float) -> float:
        """The value that a share `q` (0 to 1) of the finite ones are not above, interpolated; NaN without one."""
        return _between(self.percentiles, 100 * q) if self.percentiles else math.nan

    def share_below(self, value: float) -> float:
        """The share of the finite values at or below a value, to a hundredth; NaN without one."""
        at = bisect_right(self.percentiles, value)
        return (max(at - 1, 0) / 100 if value < self.high else 1.0) if at or self.percentiles else math.nan


@dataclass(frozen=True)
class RunSurvey:
    """What one run logged. `steps` counts the steps at which it logged anything, `rewinds` how often it went back.

    `seconds_per_step` is the median of the wall time between two rows by the steps between them; NaN without wall times.
    `further_names` are those beyond the 20,000 that are looked at.
    """

    info: RunInfo
    steps: int
    first: int
    last: int
    rewinds: int
    seconds_per_step: float
    metrics: Mapping[str, MetricSurvey]
    further_names: int = 0

    @property
    def attempts(self) -> int:
        return self.rewinds + 1


@dataclass(frozen=True)
class Survey:
    """What several runs logged: each by itself, and each name over all of them.

    >>> rows = [Row(step, {"loss": 2.0 - step / 100, "val": 2.0} if step % 50 == 0 else {"loss": 2.0}) for step in range(101)]
    >>> found = Survey.of([(RunInfo("a"), rows)])
    >>> [(name, m.points, str(m.cadence), m.low, m.low_step) for name, m in found.metrics.items()]
    [('loss', 101, 'every step', 1.0, 100), ('val', 3, 'every 50 steps', 2.0, 0)]
    """

    runs: tuple[RunSurvey, ...]
    metrics: Mapping[str, MetricSurvey]

    @classmethod
    def of(cls, runs: Iterable[tuple[RunInfo, Iterable[Row | Rewind]]]) -> Survey:
        """One pass over the rows and rewinds of runs, which may come from anywhere."""
        surveyor = Surveyor()
        for info, events in runs:
            for _ in surveyor.going_through(info, events):
                pass
        return surveyor.result()


class Surveyor:
    """Looks at runs one after the other, while somebody else may read them too: `going_through` hands on what it saw."""

    def __init__(self) -> None:
        self._runs: list[RunSurvey] = []
        self._tallies: dict[str, _Tally] = {}
        self._in_runs: Counter[str] = Counter()

    def going_through(self, info: RunInfo, events: Iterable[Row | Rewind]) -> Iterator[Row | Rewind]:
        """The events of one run, each looked at. The run counts once they are at their end."""
        run = _Run(info)
        for event in events:
            run.take(event)
            yield event
        self._runs.append(run.result())
        for name, tally in run.tallies.items():
            if name in self._tallies:
                self._tallies[name].join(tally)
            elif len(self._tallies) < MOST_NAMES:
                self._tallies[name] = tally
            self._in_runs[name] += name in self._tallies

    def result(self) -> Survey:
        """What the runs gone through so far logged."""
        pooled = {name: tally.result(self._in_runs[name]) for name, tally in self._tallies.items()}
        return Survey(tuple(self._runs), pooled)


class _Run:
    """One run as it is gone through."""

    def __init__(self, info: RunInfo) -> None:
        self.info = info
        self.tallies: dict[str, _Tally] = {}
        self._further: set[int] = set()
        self._steps = 0
        self._first = self._last = 0
        self._at: int | None = None
        self._time = math.nan
        self._rewinds = 0
        self._paces = Lot(KEPT_DISTANCES)

    def take(self, event: Row | Rewind) -> None:
        if isinstance(event, Rewind):
            self._rewinds += 1
            self._at, self._time = None, math.nan
            for known in self.tallies.values():
                known.at = None
            return
        if not event.values:
            return
        step = event.step
        if self._at is None or step > self._at:
            self._new_step(step, event.time)
        for name, value in event.values.items():
            tally = self.tallies.get(name)
            if tally is None:
                if len(self.tallies) >= MOST_NAMES:
                    if len(self._further) < MOST_NAMES:
                        self._further.add(hash(name))
                    continue
                tally = self.tallies[name] = _Tally(name, step, self._steps - 1)
            tally.take(value, step)

    def _new_step(self, step: int, time: float) -> None:
        if self._at is not None and time > self._time:
            self._paces.add((time - self._time) / (step - self._at))
        self._first, self._last = (min(self._first, step), max(self._last, step)) if self._steps else (step, step)
        self._steps += 1
        self._at, self._time = step, time

    def result(self) -> RunSurvey:
        pace = statistics.median(self._paces.kept) if self._paces.kept else math.nan
        metrics = {name: tally.result() for name, tally in self.tallies.items()}
        return RunSurvey(
            self.info, self._steps, self._first, self._last, self._rewinds, pace, metrics, len(self._further)
        )


class _Tally:
    """One metric as it is gone through."""

    __slots__ = (
        "at", "distances", "first", "high", "high_step", "infinities", "last", "longest", "low", "low_step", "name",
        "nans", "order", "points", "shortest", "values", "whole",
    )  # fmt: skip

    def __init__(self, name: str, step: int, order: int) -> None:
        self.name = name
        self.order = order
        self.points = self.nans = self.infinities = 0
        self.first = self.last = step
        self.at: int | None = None
        self.low, self.high = math.inf, -math.inf
        self.low_step = self.high_step = step
        self.longest = self.shortest = math.nan
        self.whole = True
        self.values = Lot(KEPT, name)
        self.distances = Lot(KEPT_DISTANCES, name)

    def take(self, value: float, step: int) -> None:
        self.points += 1
        if self.at is None or step > self.at:
            if self.at is not None:
                distance = step - self.at
                self.distances.add(distance)
                self.longest = distance if self.longest != self.longest else max(distance, self.longest)
                self.shortest = distance if self.shortest != self.shortest else min(distance, self.shortest)
            self.at = step
            self.first, self.last = min(self.first, step), max(self.last, step)
        if value - value != 0:  # NaN or infinite
            if value != value:
                self.nans += 1
            else:
                self.infinities += 1
            return
        self.values.add(value)
        if value < self.low:
            self.low, self.low_step = value, step
        if value > self.high:
            self.high, self.high_step = value, step
        if self.whole and value != math.floor(value):
            self.whole = False

    def join(self, other: _Tally) -> None:
        """Take in what another run logged under the same name."""
        self.points += other.points
        self.nans += other.nans
        self.infinities += other.infinities
        self.first, self.last, self.order = (
            min(self.first, other.first), max(self.last, other.last), min(self.order, other.order),
        )  # fmt: skip
        if other.low < self.low:
            self.low, self.low_step = other.low, other.low_step
        if other.high > self.high:
            self.high, self.high_step = other.high, other.high_step
        self.longest = max((x for x in (self.longest, other.longest) if x == x), default=math.nan)
        self.shortest = min((x for x in (self.shortest, other.shortest) if x == x), default=math.nan)
        self.whole = self.whole and other.whole
        self.values = self.values.joined(other.values)
        self.distances = self.distances.joined(other.distances)

    def result(self, runs: int = 1) -> MetricSurvey:
        has, kept = self.values.total > 0, sorted(self.values.kept)
        return MetricSurvey(
            self.name, self.points, self.nans, self.infinities, self.first, self.last, self.order,
            Cadence(*_usual(self.distances.kept), longest=self.longest, shortest=self.shortest),
            self.low if has else math.nan, self.low_step, self.high if has else math.nan, self.high_step,
            _scatter(kept), has and self.whole, _percentiles(kept), runs,
        )  # fmt: skip


def _between(ordered: Sequence[float], place: float) -> float:
    """The value at a place between two of some that are in order."""
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    share = place - below
    return ordered[below] if share == 0 else (1 - share) * ordered[below] + share * ordered[above]


def _percentiles(ordered: Sequence[float]) -> Sequence[float]:
    if ordered and ordered[0] == ordered[-1]:
        return array("d", ordered[:1]) * 101
    return array("d", (_between(ordered, p * (len(ordered) - 1) / 100) for p in range(101))) if ordered else ()


def _scatter(ordered: Sequence[float]) -> float:
    if not ordered:
        return math.nan
    middle = statistics.median(ordered)
    return NORMAL * statistics.median(abs(v - middle) for v in ordered)


def _usual(distances: array[float]) -> tuple[float, bool]:
    """The usual one of some distances, and whether nearly all are that."""
    if not distances:
        return math.nan, False
    often, times = Counter(distances).most_common(1)[0]
    every = often if 2 * times >= len(distances) else float(round(statistics.median(distances)))
    near = sum(abs(d - every) <= every / 10 for d in distances)
    return every, near >= REGULAR * len(distances)
