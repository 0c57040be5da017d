"""Examine a recorded run: one pass over its rows under two policies, the one that is asked for and the check-list."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vitalsdsl import rules
from vitalsdsl.batch import Batch
from vitalsdsl.logged import Reads
from vitalsdsl.points import Rewind, Row, RunInfo
from vitalsdsl.policy import LoadedPolicy
from vitalsdsl.report.bands import Band, Bands
from vitalsdsl.report.checklist import Item, Known, filled_in
from vitalsdsl.report.curve import MOST, Curve
from vitalsdsl.report.incidents import Incident, Incidents
from vitalsdsl.report.reading import Relation, Standing, relations, standings
from vitalsdsl.rules import Level
from vitalsdsl.scope import fill_family, match_family
from vitalsdsl.sources import Recording
from vitalsdsl.stream import Stream
from vitalsdsl.verdict import Transition

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

    >>> from vitalsdsl.points import Row
    >>> from vitalsdsl.policy import load
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
        info = recording.info
        self._events = list(recording.events)
        only = Batch(policy.policy, policy.digest).asked(self._events, info.total_steps)
        self._stream = Stream(policy.policy, info.name, policy.digest, True, info.total_steps, only=only)
        self._incidents = Incidents()
        self._bands = Bands()
        self._logged: dict[str, Curve] = {}
        self._left_out: set[str] = set()
        self._rewinds: list[int] = []
        self._rules = {rule.name: rule for rule in policy.policy.of(rules.Rule)}
        self._about = _subjects(policy.policy)
        self._rows = 0
        self._steps: list[int] = []
        self._began = self._ended = math.nan
        if checkup is not None:
            self._listed = Stream(checkup.policy, info.name, checkup.digest, True, info.total_steps)
            self._known = Known(self._listed)
            self._list_incidents = Incidents()

    def done(self) -> RunReport:
        for event in self._events:
            if isinstance(event, Rewind):
                self._rewind(event.step)
            else:
                self._row(event)
        self._settle(self._stream.finish())
        if self._checkup is not None:
            self._list(self._listed.finish())
        return self._report()

    def _row(self, row: Row) -> None:
        self._rows += 1
        self._steps = [self._steps[0], max(self._steps[1], row.step)] if self._steps else [row.step, row.step]
        if row.time == row.time:
            self._began = row.time if self._began != self._began else self._began
            self._ended = row.time
        self._settle(self._stream.push_row(row))
        if self._checkup is not None:
            self._list(self._listed.push_row(row))
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
            if len(self._logged) >= MOST_CURVES + MOST_LAYERS and not self._stream.reads([name]):
                self._left_out.add(name)
                return None
            curve = self._logged[name] = Curve(MOST if len(self._logged) < MOST_CURVES else MOST // 4)
        return curve

    def _settle(self, transitions: Sequence[Transition]) -> None:
        for transition in transitions:
            self._incidents.take(transition, self._begin)
        if self._stream.closed is not None:
            self._bands.see(self._stream.closed, self._stream.level)

    def _list(self, transitions: Sequence[Transition]) -> None:
        for transition in transitions:
            self._list_incidents.take(transition, lambda incident: None)
        self._known.look()

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
        """The logged name under which the run has a metric of the policy."""
        intake = self._stream.plan.metrics.intakes.get(metric)
        return intake.bound if intake is not None and intake.bound is not None else metric

    def _rewind(self, to: int) -> None:
        self._settle(self._stream.rewind(to))
        if self._checkup is not None:
            self._list(self._listed.rewind(to))
        self._rewinds.append(to)
        self._bands.rewind(to)
        for curve in self._logged.values():
            curve.rewind(to)

    # ---------------------------------------------------------------- what it comes to

    def _report(self) -> RunReport:
        stream, recording = self._stream, self._recording
        canonical = self._canonical()
        named = {canonical.get(name, name): curve for name, curve in self._logged.items()}
        read = [name for name in self._wanted() if name in named]
        curves = {name: named[name] for name in [*read, *(n for n in named if n not in read)]}
        layers = {found[1]: curve for name, curve in named.items() if (found := _LAYER.match(name))}
        if len(layers) > 1:  # the heat map shows them
            curves = {name: curve for name, curve in curves.items() if not _LAYER.match(name)}
        incidents = tuple(self._incidents.all)
        reads = Reads(stream.policy)
        items: tuple[Item, ...] = ()
        if self._checkup is not None:
            items = tuple(filled_in(self._checkup.policy, self._known, self._list_incidents.all, self._listed.names))
        notes = [*recording.info.notes, *recording.late_notes]
        if self._left_out:
            notes.append(f"{len(self._left_out):,} more metrics are logged and not shown")
        spoken = {name: curve for name, curve in curves.items() if name in read} or dict(list(curves.items())[:8])
        first, last = self._steps or (0, 0)
        return RunReport(
            recording.info, self._policy, self._rows, first, last, self._ended - self._began, stream.attempt + 1,
            stream.level, tuple(self._bands), {level: self._bands.share(level) for level in Level},
            tuple(self._rewinds), incidents,
            {level: sum(one.level is level for one in incidents) for level in Level if level},
            dict(list(curves.items())[:MOST_CURVES]), dict(list(layers.items())[:MOST_LAYERS]),
            tuple(standings(spoken)), tuple(relations(spoken)), items,
            tuple(str(one) for one in reads.never_logged(stream.names)),
            tuple(name for name in self._logged if not reads.takes(name)), tuple(notes),
        )  # fmt: skip

    def _canonical(self) -> dict[str, str]:
        """The policy's name for each logged name that it has one for."""
        found: dict[str, str] = {}
        for metric in self._stream.policy.of(rules.Metric):
            if metric.family:
                for name in self._logged:
                    stars = (match_family(pattern, name) for pattern in metric.logged)
                    star = next((star for star in stars if star is not None), None)
                    if star is not None:
                        found.setdefault(name, fill_family(metric.name, star))
                continue
            names = (self._bound(metric.name), *metric.logged)
            for name in [name for name in names if name in self._logged][:1]:
                found.setdefault(name, metric.name)
        return found

    def _wanted(self) -> list[str]:
        """The policy's metrics in the order in which a person looks at them."""
        declared = list(dict.fromkeys([*FIRST, *(m.name for m in self._stream.policy.of(rules.Metric))]))
        return declared + [r.path for r in Reads(self._stream.policy).metrics if r.path not in declared]


FIRST = ("loss", "val_loss", "grad_norm", "lr", "param_norm", "loss_scale")
"""What people look at first."""


def _subjects(policy: rules.Policy) -> dict[str, str]:
    """What each rule is about: the metric that it reads first."""
    reads = Reads(policy)
    found = {}
    for rule in policy.of(rules.Rule):
        metric = next((node.path for node in reads.of_rule(rule)), None)
        if metric is not None:
            found[rule.name] = metric
    return found
