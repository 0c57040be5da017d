"""Backtest: what a policy gives on all runs behind some sources; how right it is, beside another, and as a param varies."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vitalsdsl.backtesting.comparing import Difference, RuleShift, differences, shifts
from vitalsdsl.backtesting.judging import PolicyCopy
from vitalsdsl.backtesting.kept import Kept
from vitalsdsl.backtesting.labels import Assigned, Labels, read_labels
from vitalsdsl.backtesting.outcome import RunOutcome
from vitalsdsl.backtesting.over import OnProgress, Verdicts, Work, over
from vitalsdsl.backtesting.score import Score, score
from vitalsdsl.backtesting.summary import LEVELS, RuleSummary
from vitalsdsl.backtesting.sweep import Sweep, parse_sweep
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.language.rules import LEVEL_WORDS, Level
from vitalsdsl.policies.policy import LoadedPolicy, as_policy, load
from vitalsdsl.runs.places import Unread


@dataclass(frozen=True)
class CurvePoint:
    """What one value of the param that was varied gives: how often a rule came to each level, on how many runs any did,
    the steps of all runs, and where there are labels how right that is."""

    setting: str
    times: Mapping[Level, int]
    runs: Mapping[Level, int]
    steps: int
    score: Score | None


@dataclass(frozen=True)
class Backtest:
    """What came of it.

    `main` is the policy over the runs, `other` the one it is compared with, `swept` the policy once for each value of a
    param. `unread` could not be read. `level` is that from which on alarms count where one has to be chosen.
    """

    main: Verdicts
    unread: tuple[Unread, ...] = ()
    work: Work = field(default_factory=Work)
    labels: Labels | None = None
    tolerance: int = 0
    level: Level = Level.YELLOW
    other: Verdicts | None = None
    sweep: Sweep | None = None
    swept: tuple[Verdicts, ...] = field(default=(), repr=False)

    @property
    def runs(self) -> tuple[RunOutcome, ...]:
        """Each run, with what the policy gives on it, in the order of the sources."""
        return self.main.runs

    @property
    def rules(self) -> list[RuleSummary]:
        """Each rule: how often, when, on which runs."""
        return self.main.rules

    @cached_property
    def assigned(self) -> Assigned | None:
        """The labels of each run; None where none were given."""
        return None if self.labels is None else self.labels.by_run(self.main.runs)

    @cached_property
    def score(self) -> Score | None:
        """How right the policy is; None without labels."""
        return self._score(self.main)

    @cached_property
    def other_score(self) -> Score | None:
        """How right the other policy is; None without labels, or without another."""
        return None if self.other is None else self._score(self.other)

    def _score(self, verdicts: Verdicts) -> Score | None:
        if self.assigned is None:
            return None
        return score(verdicts.policy.rules, verdicts.runs, self.assigned, self.tolerance, self.level)

    def differences(self) -> Iterator[Difference]:
        """Where the other policy says something else, run by run and rule by rule; nothing without another."""
        return iter(()) if self.other is None else differences(self.main.runs, self.other.runs)

    @cached_property
    def shifts(self) -> list[RuleShift]:
        """The differences by rule."""
        return shifts(self.differences())

    @cached_property
    def curve(self) -> list[CurvePoint]:
        """What each value of the param that was varied gives, in their order."""
        return [self._point(verdicts) for verdicts in self.swept]

    def _point(self, verdicts: Verdicts) -> CurvePoint:
        times, runs, steps = dict.fromkeys(LEVELS, 0), dict.fromkeys(LEVELS, 0), 0
        for run in verdicts.runs:
            changes = run.changes
            steps += len(run.steps)
            for level in LEVELS:
                count = sum(change.is_alarm(level) for change in changes)
                times[level] += count
                runs[level] += count > 0
        return CurvePoint(verdicts.setting, times, runs, steps, self._score(verdicts))

    @cached_property
    def worst(self) -> Level:
        """The highest level on any run; with labels, the highest of what is a false alarm."""
        if self.score is None:
            return max((run.worst for run in self.main.runs), default=Level.GREEN)
        return max((one.worst for one in self.score.disturbances), default=Level.GREEN)


def backtest(
    policy: str | os.PathLike[str] | LoadedPolicy,
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
    labels: str | os.PathLike[str] | Labels | None = None,
    tolerance: int = 0,
    level: str | Level = Level.YELLOW,
    versus: str | os.PathLike[str] | LoadedPolicy | None = None,
    sweep: str | Sweep | None = None,
    step_key: str | None = None,
    jobs: int = 1,
    kept: Kept | None = None,
    on_progress: OnProgress | None = None,
) -> Backtest:
    """What a policy (a file, `pack:NAME`, or one that was loaded) gives on all runs behind some sources.

    A source is a file, a folder with all logs in it and below, or a tracker's reference (`mlflow:experiments/NAME`,
    `wandb:ENTITY/PROJECT`). One that cannot be read is in `unread`, and costs no other.

    With `labels` (a file, as docs/backtest.md has it) there is a `score`: an alarm up to `tolerance` steps before an onset
    is still right. With `versus` there are `differences` to another policy, and with a `sweep` (`k=1.5..6`), for which the
    policy is a file or a pack, there is a `curve`. `level` is that from which on alarms count where one has to be chosen.

    With `jobs` above 1 that many processes work; a script that asks for them needs `if __name__ == "__main__":`. With
    `kept` results are taken up from there and kept there. Raises PolicyError where a policy has errors, UsageError for a
    wrong argument.
    """
    loaded = as_policy(policy, settings, profile)
    read = labels if isinstance(labels, Labels) or labels is None else read_labels(labels)
    if tolerance < 0:
        raise UsageError("the tolerance is a number of steps, 0 or more")
    varied = parse_sweep(sweep) if isinstance(sweep, str) else sweep
    copies = [(PolicyCopy.of(loaded), "")]
    if versus is not None:
        copies.append((PolicyCopy.of(as_policy(versus)), ""))
    if varied is not None:
        if isinstance(policy, LoadedPolicy):
            raise UsageError("a sweep loads the policy anew for each value: give its file or pack")
        for value in varied.values:
            swept = load(policy, settings={**(settings or {}), varied.name: value}, profile=profile)
            copies.append((PolicyCopy.of(swept), value))
    listed = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    verdicts, unread, work = over(copies, listed, jobs=jobs, step_key=step_key, kept=kept, on_progress=on_progress)
    others = verdicts[1:]
    other = others.pop(0) if versus is not None else None
    return Backtest(
        verdicts[0], tuple(unread), work, read, tolerance, _level(level), other, varied, tuple(others)
    )  # fmt: skip


def _level(level: str | Level) -> Level:
    if isinstance(level, Level):
        return level
    if level not in LEVEL_WORDS or Level.parse(level) == Level.GREEN:
        raise UsageError(f"`{level}` is no level of an alarm: write yellow, orange or red")
    return Level.parse(level)
