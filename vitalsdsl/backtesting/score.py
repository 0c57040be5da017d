"""How right a policy is on runs of which people know how they went.

An incident is found at a level where a rule gets worse, and comes to that level or above, at a step from its onset, less
the tolerance, to its end, or that of the run where it has none. An alarm at a level is a rule's coming to it or above from
below it; one in no incident is false. Where an onset is not known, all of the run belongs to the incident.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vitalsdsl.backtesting.labels import Assigned, Label
from vitalsdsl.backtesting.outcome import Change, RunOutcome, Steps
from vitalsdsl.backtesting.summary import LEVELS
from vitalsdsl.language.rules import Level

_Z = 1.959964
"""The normal deviate of a 95 % interval."""


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson, which holds for small counts and for none or all.

    Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927), 209-212.

    >>> [f"{end:.3f}" for end in wilson(9, 10)], [f"{end:.3f}" for end in wilson(0, 10)]
    (['0.596', '0.982'], ['0.000', '0.278'])
    """
    if not of:
        return 0.0, 1.0
    share = min(count, of) / of
    middle = share + _Z * _Z / (2 * of)
    half = _Z * math.sqrt(share * (1 - share) / of + _Z * _Z / (4 * of * of))
    scale = 1 + _Z * _Z / of
    return (middle - half) / scale if count > 0 else 0.0, (middle + half) / scale if count < of else 1.0


@dataclass(frozen=True)
class Share:
    """A part of a whole, with its 95 % interval."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """NaN where there is no whole."""
        return self.count / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.count, self.of)


@dataclass(frozen=True)
class Incident:
    """One incident on one run, and what the policy did: the change that found it, by level; `rules` that came to the
    label's own level within it."""

    run: str
    label: Label
    found: Mapping[Level, Change]
    rules: tuple[str, ...]
    reached: Level

    @property
    def is_found(self) -> bool:
        """At the level that its label asks for."""
        return self.label.level in self.found

    def delay(self, level: Level) -> int | None:
        """Steps from the onset to the change that found it at a level; negative where that came before. None where it was
        not found, or nobody knows the onset."""
        change = self.found.get(level)
        if change is None or math.isnan(self.label.onset):
            return None
        return change.step - int(self.label.onset)


@dataclass
class LevelScore:
    """All labelled runs at one level: alarms from there on.

    `delays` are those of the incidents that were found and whose onset is known. `healthy_steps` lie in no incident.
    """

    level: Level
    incidents: int = 0
    found: int = 0
    right: int = 0
    wrong: int = 0
    delays: list[int] = field(default_factory=list)
    healthy_steps: int = 0
    healthy_runs: int = 0
    disturbed_runs: int = 0

    @property
    def recall(self) -> Share:
        """Incidents that were found."""
        return Share(self.found, self.incidents)

    @property
    def precision(self) -> Share:
        """Alarms that lie in an incident."""
        return Share(self.right, self.right + self.wrong)

    @property
    def disturbed(self) -> Share:
        """Healthy runs with an alarm."""
        return Share(self.disturbed_runs, self.healthy_runs)

    @property
    def false_steps(self) -> Share:
        """False alarms, of the steps that lie in no incident."""
        return Share(self.wrong, self.healthy_steps)

    @property
    def false_per_1000(self) -> float:
        return 1000 * self.wrong / self.healthy_steps if self.healthy_steps else math.nan

    @property
    def quartiles(self) -> tuple[float, float, float] | None:
        """Of the delays: the quarter, the median, the three quarters."""
        return quartiles(self.delays)


def quartiles(values: Sequence[float]) -> tuple[float, float, float] | None:
    """None of none.

    >>> quartiles([3, 1, 2, 5, 4]), quartiles([7]), quartiles([])
    ((2.0, 3.0, 4.0), (7, 7, 7), None)
    """
    if len(values) < 2:
        return (values[0],) * 3 if values else None
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


@dataclass
class RuleScore:
    """One rule: its alarms at the level that was asked for, within incidents and outside; the incidents in which it came
    to the label's level, and those in which no other rule did."""

    rule: str
    right: int = 0
    wrong: int = 0
    found: int = 0
    alone: int = 0


@dataclass(frozen=True)
class Disturbance:
    """A run with false alarms: how many changes are one, the first of them, the highest level that is wrong there."""

    run: str
    is_healthy: bool
    count: int
    first: Change
    worst: Level
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """How right a policy is on the labelled runs."""

    levels: tuple[LevelScore, ...]
    incidents: tuple[Incident, ...]
    disturbances: tuple[Disturbance, ...]
    rules: tuple[RuleScore, ...]
    runs: int
    unlabelled: int
    tolerance: int = 0
    level: Level = Level.YELLOW

    def at(self, level: Level) -> LevelScore:
        return next(one for one in self.levels if one.level == level)

    @property
    def missed(self) -> list[Incident]:
        """Incidents that did not come to their label's level."""
        return [incident for incident in self.incidents if not incident.is_found]


def score(
    rules: Sequence[str],
    runs: Iterable[RunOutcome],
    assigned: Assigned,
    tolerance: int = 0,
    level: Level = Level.YELLOW,
) -> Score:
    """The score of what a policy gave on runs, for rules at a level. A run without labels counts nowhere."""
    levels = {one: LevelScore(one) for one in LEVELS}
    by_rule = {rule: RuleScore(rule) for rule in rules}
    incidents: list[Incident] = []
    disturbances: list[Disturbance] = []
    judged = 0
    for run in runs:
        labels = assigned.labels.get(run.run, [])
        if not labels:
            continue
        judged += 1
        changes, steps = run.changes, run.steps
        for total in levels.values():
            _count(total, labels, changes, steps, tolerance)
        for label in labels:
            if not label.is_healthy:
                incidents.append(_incident(run.run, label, changes, tolerance))
                _credit(by_rule, incidents[-1], levels)
        disturbance = _disturbance(run.run, labels, changes, tolerance)
        if disturbance is not None:
            disturbances.append(disturbance)
        _count_rules(by_rule, labels, changes, tolerance, level)
    return Score(
        tuple(levels.values()), tuple(incidents), tuple(disturbances), tuple(by_rule.values()), judged,
        assigned.unlabelled, tolerance, level,
    )  # fmt: skip


def _windows(labels: Sequence[Label], level: Level, tolerance: int) -> list[tuple[float, float]]:
    """The stretches of a run in which an alarm of a level is right, apart and in order."""
    right = sorted((one.begins(tolerance), one.end) for one in labels if not one.is_healthy and level <= one.at_most)
    apart: list[tuple[float, float]] = []
    for low, high in right:
        if apart and low <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(high, apart[-1][1]))
        else:
            apart.append((low, high))
    return apart


def _is_excused(labels: Sequence[Label], level: Level) -> bool:
    """Whether a healthy run may come to this level: then it is no matter of it."""
    return labels[0].is_healthy and level <= max(label.at_most for label in labels)


def _count(total: LevelScore, labels: Sequence[Label], changes: Sequence[Change], steps: Steps, tolerance: int) -> None:
    """Add a run to the score of a level."""
    if _is_excused(labels, total.level):
        return
    windows = _windows(labels, total.level, tolerance)
    alarms = [change.step for change in changes if change.is_alarm(total.level)]
    right = sum(_is_in(step, windows) for step in alarms)
    total.right += right
    total.wrong += len(alarms) - right
    total.healthy_steps += len(steps) - sum(steps.within(low, high) for low, high in windows)
    if labels[0].is_healthy:
        total.healthy_runs += 1
        total.disturbed_runs += bool(alarms)


def _is_in(step: int, windows: Iterable[tuple[float, float]]) -> bool:
    return any(low <= step <= high for low, high in windows)


def _incident(run: str, label: Label, changes: Sequence[Change], tolerance: int) -> Incident:
    begin = label.begins(tolerance)
    within = [change for change in changes if begin <= change.step <= label.end and change.rises_to(Level.YELLOW)]
    found: dict[Level, Change] = {}
    for level in LEVELS:
        first = min((change for change in within if change.to >= level), key=lambda one: one.step, default=None)
        if first is not None:
            found[level] = first
    rules = dict.fromkeys(change.rule for change in within if change.to >= label.level)
    return Incident(run, label, found, tuple(rules), max((c.to for c in within), default=Level.GREEN))


def _credit(by_rule: dict[str, RuleScore], incident: Incident, levels: Mapping[Level, LevelScore]) -> None:
    """Count an incident for the levels that it may come to, and for the rules that found it."""
    for level, total in levels.items():
        if level > incident.label.at_most:
            continue
        total.incidents += 1
        total.found += level in incident.found
        delay = incident.delay(level)
        if delay is not None:
            total.delays.append(delay)
    for rule in incident.rules:
        own = by_rule.setdefault(rule, RuleScore(rule))
        own.found += 1
        own.alone += len(incident.rules) == 1


def _disturbance(run: str, labels: Sequence[Label], changes: Sequence[Change], tolerance: int) -> Disturbance | None:
    """What is false on a run; None where nothing is."""
    worst: dict[Change, Level] = {}
    for level in LEVELS:
        if not _is_excused(labels, level):
            windows = _windows(labels, level, tolerance)
            worst |= {one: level for one in changes if one.is_alarm(level) and not _is_in(one.step, windows)}
    if not worst:
        return None
    rules = tuple(dict.fromkeys(change.rule for change in worst))
    first = min(worst, key=lambda change: change.step)
    return Disturbance(run, labels[0].is_healthy, len(worst), first, max(worst.values()), rules)


def _count_rules(
    by_rule: dict[str, RuleScore], labels: Sequence[Label], changes: Sequence[Change], tolerance: int, level: Level
) -> None:
    if _is_excused(labels, level):
        return
    windows = _windows(labels, level, tolerance)
    for change in changes:
        if change.is_alarm(level):
            own = by_rule.setdefault(change.rule, RuleScore(change.rule))
            is_right = _is_in(change.step, windows)
            own.right += is_right
            own.wrong += not is_right
