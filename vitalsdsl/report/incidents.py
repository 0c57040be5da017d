"""Transitions as incidents: a rule that left green, how far it went, and when it was over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition


@dataclass
class Incident:
    """One time that a rule was not green, from its onset on.

    `metric` is what the rule is about, `before` what that usually was before the onset, `peak` the value furthest from
    it while it lasted, both NaN where nothing is known. `end` is None where the run ended first.
    """

    rule: str
    member: str | None
    onset: int
    step: int
    level: Level
    message: str
    title: str = ""
    advice: tuple[str, ...] = ()
    runbook: str | None = None
    reason: str = ""
    metric: str = ""
    before: float = math.nan
    peak: float = math.nan
    peak_step: int | None = None
    end: int | None = None
    attempt: int = 0
    margin: float = math.nan
    climbed: list[tuple[int, Level]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The rule, with its member where it has one."""
        return self.rule if self.member is None else f"{self.rule}[{self.member}]"

    @property
    def reached(self) -> int:
        """The step at which it came to its highest level."""
        return next((step for step, level in self.climbed if level is self.level), self.step)

    @property
    def width(self) -> int | None:
        """Steps from onset to the end of it."""
        return None if self.end is None else self.end - self.onset

    @property
    def recovery(self) -> int | None:
        """Steps from the peak to the end of it."""
        return None if self.end is None or self.peak_step is None else self.end - self.peak_step

    @property
    def height(self) -> float:
        """The peak as a multiple of what was before; NaN where either is unknown or there was next to nothing before."""
        if not (math.isfinite(self.peak) and math.isfinite(self.before)) or abs(self.before) < 1e-12:
            return math.nan
        return self.peak / self.before


class Incidents:
    """All incidents of one run, as its transitions come."""

    def __init__(self) -> None:
        self.all: list[Incident] = []
        self._open: dict[tuple[str, str | None], Incident] = {}

    @property
    def open(self) -> Iterable[Incident]:
        """Those that are not over."""
        return self._open.values()

    def take(self, transition: Transition, begin: Callable[[Incident], None]) -> None:
        """One more transition; `begin` fills in what is known of an incident that begins."""
        key = (transition.rule, transition.member)
        incident = self._open.get(key)
        if transition.to is Level.GREEN:
            if incident is not None:
                incident.end = transition.step
                del self._open[key]
            return
        if incident is None:
            onset = transition.step if transition.onset is None else transition.onset
            incident = Incident(
                transition.rule, transition.member, onset, transition.step, transition.to, transition.message,
                attempt=transition.attempt, reason=transition.reason, margin=transition.margin,
            )  # fmt: skip
            self._open[key] = incident
            self.all.append(incident)
            begin(incident)
        elif transition.to > incident.level:
            incident.level, incident.message = transition.to, transition.message
        incident.climbed.append((transition.step, transition.to))

    def see(self, metric: str, step: int, value: float) -> None:
        """A point of a metric, for the incidents about it that are open."""
        for incident in self._open.values():
            if incident.metric == metric and incident.reason != "nonfinite" and math.isfinite(value):
                reference = incident.before if math.isfinite(incident.before) else 0.0
                if incident.peak_step is None or abs(value - reference) > abs(incident.peak - reference):
                    incident.peak, incident.peak_step = value, step
