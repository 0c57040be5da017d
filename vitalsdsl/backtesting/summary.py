"""Per rule: how often, when, on which runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vitalsdsl.backtesting.outcome import Change, RunOutcome
from vitalsdsl.language.rules import Level

LEVELS = (Level.YELLOW, Level.ORANGE, Level.RED)


@dataclass
class RuleSummary:
    """A rule over all runs.

    `times` says how often it came to each level, from whichever below it: a rule that goes from yellow to orange has come
    to both. `firsts` are, for each run on which it fired, the step at which it first did; `blind` counts the runs that do
    not log all that it reads; `steps` are those of all runs.
    """

    rule: str
    times: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    firsts: list[int] = field(default_factory=list)
    blind: int = 0
    steps: int = 0

    @property
    def runs(self) -> int:
        """On how many runs it fired."""
        return len(self.firsts)

    @property
    def alarms(self) -> int:
        """How often it came from green to any level."""
        return self.times[Level.YELLOW]

    @property
    def first(self) -> int | None:
        """The earliest step on any run."""
        return min(self.firsts, default=None)

    @property
    def typical(self) -> float | None:
        """The median over runs of the first step."""
        return statistics.median(self.firsts) if self.firsts else None

    @property
    def per_1000(self) -> float:
        """Alarms per 1,000 steps of all runs."""
        return 1000 * self.alarms / self.steps if self.steps else 0.0


def rule_summaries(rules: Sequence[str], runs: Iterable[RunOutcome]) -> list[RuleSummary]:
    """The rules in the policy's order, then those that it has without naming them (the guards against NaN)."""
    found = {name: RuleSummary(name) for name in rules}
    steps = 0
    for run in runs:
        own = len(run.steps)
        steps += own
        for name in run.blind:
            if name in found:
                found[name].blind += 1
        by_rule: dict[str, list[Change]] = {}
        for change in run.changes:
            by_rule.setdefault(change.rule, []).append(change)
        for name, changes in by_rule.items():
            _count(found.setdefault(name, RuleSummary(name)), changes)
    for summary in found.values():
        summary.steps = steps
    return list(found.values())


def _count(summary: RuleSummary, changes: Sequence[Change]) -> None:
    for level in LEVELS:
        summary.times[level] += sum(change.is_alarm(level) for change in changes)
    alarms = [change.step for change in changes if change.is_alarm(Level.YELLOW)]
    if alarms:
        summary.firsts.append(min(alarms))
