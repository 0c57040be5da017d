"""Examine a recorded run: one pass over its rows under two policies, the one that is asked for and the check-list."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.language.scope import fill_family, match_family
from vitalsdsl.nodes.table import Table
from vitalsdsl.planning.logged import Reads
from vitalsdsl.planning.unrecognised import otherwise_lacking, unrecognised
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.report.bands import Band, Bands
from vitalsdsl.report.checklist import Item, filled_in, looked_at
from vitalsdsl.report.curve import MOST, Curve
from vitalsdsl.report.incidents import Incident, Incidents
from vitalsdsl.report.reading import Relation, Standing, relations, standings
from vitalsdsl.runs.sources import Recording
from vitalsdsl.verdicts.verdict import Transition

MOST_CURVES = 300
"""Metrics that are drawn or spoken of; a run that logs more has the first of them, those that rules read before others."""

MOST_LAYERS = 256
"""Rows of the heat map."""

BEFORE = 20
"""Points before an onset whose median is what a metric was before."""

_LAYER = re.compile(r"^grad_norm/(?:layer/)?(.+)$")


@dataclass(frozen=True)
class RunReport:
    """All that a page says of one run. `curves` are by canonical name where a rule reads them, else by the logged one;
    `layers` the gradient norms by layer. Times are in seconds, NaN where the run has no clock."""

    info: RunInfo
    policy: LoadedPolicy
    rows: int
    first_step: int
    last_step: int
    seconds: float
    attempts: int
    level: Level
    bands: tuple[Band, ...]
    shares: Mapping[Level, float]
    rewinds: tuple[int, ...]
    incidents: tuple[Incident, ...]
    counts: Mapping[Level, int]
    curves: Mapping[str, Curve]
    layers: Mapping[str, Curve]
    standings: tuple[Standing, ...]
    relations: tuple[Relation, ...]
    items: tuple[Item, ...]
    unrecognised: tuple[str, ...]
    """What of the loss and the gradient norm no rule looked at, since the run has other names for them."""
    blind: tuple[str, ...]
    unread: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def highest(self) -> Level:
        """The highest level that the run reached."""
        return max((one.level for one in self.incidents), default=Level.GREEN)

    @property
    def advice(self) -> list[tuple[Incident, str]]:
        """What to try, in the rules' own order, each thing once; what stands before what is over, higher levels first."""
        said: dict[str, tuple[Incident, str]] = {}
        ordered = sorted(self.incidents, key=lambda one: (one.end is not None, -one.level, one.onset))
        for incident in ordered:
            for text in incident.advice:
                said.setdefault(text, (incident, text))
        return list(said.values())

    @property
    def by_rule(self) -> list[tuple[str, list[Incident]]]:
        """The incidents of each rule, the rules with the highest levels first."""
        grouped: dict[str, list[Incident]] = {}
        for incident in self.incidents:
            grouped.setdefault(incident.name, []).append(incident)
        return sorted(grouped.items(), key=lambda pair: (-max(one.level for one in pair[1]), pair[1][0].onset))


def examine(recording: Recording, policy: LoadedPolicy, checkup: LoadedPolicy | None = None) -> RunReport:
    """Go through a run once. Raises SourceError where its rows cannot be read.

    >>> from vitalsdsl.ground.points import Row
    >>> from vitalsdsl.policies.policy import load
    >>> rows = [Row(step, {"loss": 5.0 if step == 3 else 2.0}) for step in range(5)]
    >>> report = examine(Recording(RunInfo("run"), rows), load("p", text="when loss > 3 -> orange"))
    >>> [(one.rule, one.onset, one.end, one.peak) for one in report.incidents]
    [('loss_orange', 3, 4, 5.0)]
    """
    return _Examination(recording, policy, checkup).done()


class _Examination:
    """The pass over one run."""

    def __init__(self, recording: Recording, policy: LoadedPolicy, checkup: LoadedPolicy | None) -> None:
        self._recording = recording
        self._policy = policy
        self._checkup = checkup
        self._events = list(recording.events)
        self._table = Table.of(self._events)
        self._reads = Reads(policy.policy)
        self._names = {read.path: read.names for read in self._reads.metrics if not read.family}
        self._names.update({m.name: m.logged for m in policy.policy.of(rules.Metric) if not m.family})
        self._transitions = self._judged(policy)
        self._levels: dict[tuple[str, str | None], Level] = {}
        self._incidents = Incidents()
        self._bands = Bands()
        self._logged: dict[str, Curve] = {}
        self._left_out: set[str] = set()
        self._rewinds: list[int] = []
        self._rules = {rule.name: rule for rule in policy.policy.of(rules.Rule)}
        self._about = _subjects(policy.policy, self._reads)
        self._rows = 0
        self._steps: list[int] = []
        self._step: int | None = None
        self._began = self._ended = math.nan

    def _judged(self, policy: LoadedPolicy) -> dict[tuple[int, int], list[Transition]]:
        """The transitions of a policy, by attempt and step."""
        info = self._recording.info
        found: dict[tuple[int, int], list[Transition]] = {}
        batch = Batch(policy.policy, policy.digest)
        for transition in batch.transitions(self._events, info.name, info.total_steps, self._table):
            found.setdefault((transition.attempt, transition.step), []).append(transition)
        return found

    def done(self) -> RunReport:
        for event in self._events:
            if isinstance(event, Rewind):
                self._rewind(event.step)
            else:
                self._row(event)
        self._close()
        return self._report()

    def _row(self, row: Row) -> None:
        if self._step is not None and row.step > self._step:
            self._close()
        self._step = row.step if self._step is None else max(self._step, row.step)
        self._rows += 1
        self._steps = [self._steps[0], max(self._steps[1], row.step)] if self._steps else [row.step, row.step]
        if row.time == row.time:
            self._began = row.time if self._began != self._began else self._began
            self._ended = row.time
        for name, value in row.values.items():
            curve = self._curve(name)
            if curve is not None:
                curve.add(row.step, value)
        for incident in self._incidents.open:
            name = self._bound(incident.metric)
            if name in row.values:
                self._incidents.see(incident.metric, row.step, row.values[name])

    def _curve(self, name: str) -> Curve | None:
        curve = self._logged.get(name)
        if curve is None and name not in self._left_out:
            if len(self._logged) >= MOST_CURVES + MOST_LAYERS and not self._reads.takes(name):
                self._left_out.add(name)
                return None
            curve = self._logged[name] = Curve(MOST if len(self._logged) < MOST_CURVES else MOST // 4)
        return curve

    def _close(self) -> None:
        """The step that was open is over: what the rules said of it."""
        if self._step is not None:
            self._settle(self._step)

    def _settle(self, step: int) -> None:
        for transition in self._transitions.get((len(self._rewinds), step), ()):
            self._levels[transition.rule, transition.member] = transition.to
            self._incidents.take(transition, self._begin)
        self._bands.see(step, self._level)

    @property
    def _level(self) -> Level:
        return max(self._levels.values(), default=Level.GREEN)

    def _begin(self, incident: Incident) -> None:
        """What a rule that fires says of itself, and where its metric stood before."""
        rule = self._rules.get(incident.rule)
        if rule is not None:
            incident.title = rule.title or ""
            incident.advice = rule.body.try_ or ()
            incident.runbook = rule.body.runbook
            incident.metric = incident.member or self._about.get(incident.rule, "")
        elif incident.reason == "nonfinite":
            incident.metric = incident.rule.removeprefix("nonfinite(").removesuffix(")")
            incident.title = f"{incident.metric} is NaN or infinite"
            return
        curve = self._logged.get(self._bound(incident.metric))
        if curve is None:
            return
        before = [v for step, v in curve.tail if step < incident.onset and math.isfinite(v)][-BEFORE:]
        incident.before = statistics.median(before) if before else math.nan
        for step, value in curve.tail:
            if step >= incident.onset:
                self._incidents.see(incident.metric, step, value)

    def _bound(self, metric: str) -> str:
        """The logged name under which the run has a metric of the policy: the one that came first."""
        names = self._names.get(metric, ())
        return next((name for name in self._logged if name in names), metric)

    def _rewind(self, to: int) -> None:
        self._close()
        self._rewinds.append(to)
        self._bands.rewind(to)
        self._step = None
        self._settle(to)
        for curve in self._logged.values():
            curve.rewind(to)

    # ---------------------------------------------------------------- what it comes to

    def _report(self) -> RunReport:
        recording, reads = self._recording, self._reads
        canonical = self._canonical()
        named = {canonical.get(name, name): curve for name, curve in self._logged.items()}
        read = [name for name in self._wanted() if name in named]
        curves = {name: named[name] for name in [*read, *(n for n in named if n not in read)]}
        layers = {found[1]: curve for name, curve in named.items() if (found := _LAYER.match(name))}
        if len(layers) > 1:  # the heat map shows them
            curves = {name: curve for name, curve in curves.items() if not _LAYER.match(name)}
        incidents = tuple(self._incidents.all)
        logged = [*self._logged, *self._left_out]
        blind = unrecognised(reads, logged)
        notes = [*recording.info.notes, *recording.late_notes]
        if self._table is not None and len(self._table):
            notes += reads.stopped(self._table.stopped(), int(self._table.rows.steps[-1]))
        if self._left_out:
            notes.append(f"{len(self._left_out):,} more metrics are logged and not shown")
        spoken = {name: curve for name, curve in curves.items() if name in read} or dict(list(curves.items())[:8])
        first, last = self._steps or (0, 0)
        return RunReport(
            recording.info, self._policy, self._rows, first, last, self._ended - self._began, len(self._rewinds) + 1,
            self._level, tuple(self._bands), {level: self._bands.share(level) for level in Level},
            tuple(self._rewinds), incidents,
            {level: sum(one.level is level for one in incidents) for level in Level if level},
            dict(list(curves.items())[:MOST_CURVES]), dict(list(layers.items())[:MOST_LAYERS]),
            tuple(standings(spoken)), tuple(relations(spoken)), tuple(self._items(logged)),
            tuple(one.told for one in blind), tuple(str(one) for one in otherwise_lacking(reads, logged, blind)),
            tuple(name for name in self._logged if not reads.takes(name)), tuple(notes),
        )  # fmt: skip

    def _items(self, logged: Sequence[str]) -> list[Item]:
        """The check-list, filled in."""
        if self._checkup is None:
            return []
        incidents = Incidents()
        for transitions in self._judged(self._checkup).values():
            for transition in transitions:
                incidents.take(transition, lambda incident: None)
        looked = looked_at(self._checkup, self._events, self._table, self._recording.info.total_steps)
        return filled_in(self._checkup.policy, looked, incidents.all, logged)

    def _canonical(self) -> dict[str, str]:
        """The policy's name for each logged name that it has one for."""
        found: dict[str, str] = {}
        for metric in self._policy.policy.of(rules.Metric):
            if metric.family:
                for name in self._logged:
                    stars = (match_family(pattern, name) for pattern in metric.logged)
                    star = next((star for star in stars if star is not None), None)
                    if star is not None:
                        found.setdefault(name, fill_family(metric.name, star))
                continue
            if self._bound(metric.name) in self._logged:
                found.setdefault(self._bound(metric.name), metric.name)
        return found

    def _wanted(self) -> list[str]:
        """The policy's metrics in the order in which a person looks at them."""
        declared = list(dict.fromkeys([*FIRST, *(m.name for m in self._policy.policy.of(rules.Metric))]))
        return declared + [r.path for r in self._reads.metrics if r.path not in declared]


FIRST = ("loss", "val_loss", "grad_norm", "lr", "param_norm", "loss_scale")
"""What people look at first."""


def _subjects(policy: rules.Policy, reads: Reads) -> dict[str, str]:
    """What each rule is about: the metric that it reads first."""
    found = {}
    for rule in policy.of(rules.Rule):
        metric = next((node.path for node in reads.of_rule(rule)), None)
        if metric is not None:
            found[rule.name] = metric
    return found
