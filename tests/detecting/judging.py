"""What a policy says on a run, and whether that was right."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.detecting.judged_cases import Case
from vitalsdsl.logged import Reads
from vitalsdsl.points import Rewind
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.rules import Level, Rule
from vitalsdsl.stream import Stream

SLACK = 1000
"""Steps after the end of an incident in which an alarm still counts as one about it."""


@dataclass(frozen=True)
class Alarm:
    """A rule has gone up to a level."""

    step: int
    rule: str
    level: Level


@dataclass(frozen=True)
class Outcome:
    """A run under a policy. `known` are the rules of which some condition was ever known there; the truth is the run's.

    A run in which the policy reads no metric that shows the incident is `blind`: nothing can be expected.
    """

    case: Case
    steps: int
    alarms: tuple[Alarm, ...]
    known: frozenset[str]
    wanted: Level
    most: Level
    onset: int | None
    end: int | None
    blind: bool = False

    @property
    def highest(self) -> Level:
        return max((a.level for a in self.alarms), default=Level.GREEN)

    @property
    def about(self) -> tuple[Alarm, ...]:
        """The alarms that may be about the incident."""
        if self.onset is None or self.end is None:
            return ()
        return tuple(a for a in self.alarms if self.onset <= a.step <= self.end + SLACK)

    def first(self, level: Level) -> Alarm | None:
        """The first alarm about the incident of a level or above."""
        return next((a for a in self.about if a.level >= level), None)

    def delay(self, level: Level) -> int | None:
        """Steps from the onset to the first alarm of a level or above."""
        found = self.first(level)
        return found.step - self.onset if found is not None and self.onset is not None else None


def judge(case: Case, policy: LoadedPolicy) -> Outcome:
    """Run a case under a policy."""
    run = case.run()
    names = {rule.name for rule in policy.policy.of(Rule)}
    read = [metric for metric in Reads(policy.policy).metrics if names & set(metric.readers)]
    stream = Stream(policy.policy, case.curve, policy.digest, keep_all=bool(run.rewinds))
    transitions = []
    known: set[str] = set()
    is_read = any(metric.takes(name) for metric in read for name in run.series)
    for count, event in enumerate(run.rows() if is_read else ()):
        transitions += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
        if count % 200 == 0:
            known |= _known(stream, known)
    transitions += stream.finish()
    known |= _known(stream, known)
    alarms = tuple(Alarm(t.step, t.rule, t.to) for t in transitions if t.to > t.from_)
    blind = bool(run.truth.shows) and not any(metric.takes(name) for metric in read for name in run.truth.shows)
    steps = int(run.steps.max() - run.steps.min()) + case.stride if len(run.steps) else 0
    truth = run.truth
    return Outcome(case, steps, alarms, frozenset(known), truth.level, truth.most, truth.onset, truth.end, blind)


def _known(stream: Stream, before: set[str]) -> set[str]:
    return {s.name for s in stream.plan.rules if s.name not in before and any(c.latest is not None for c in s.clauses)}


_policy: LoadedPolicy | None = None


def _prepare(reference: str, settings: Mapping[str, str]) -> None:
    global _policy
    _policy = load(reference, settings=settings)


def _judged(case: Case) -> Outcome:
    assert _policy is not None
    return judge(case, _policy)


def judged(cases: Iterable[Case], reference: str, settings: Mapping[str, str], processes: int) -> Iterator[Outcome]:
    """Run cases under a policy, in several processes, in the order in which they were given."""
    if processes == 1:
        policy = load(reference, settings=settings)
        yield from (judge(case, policy) for case in cases)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _prepare, (reference, settings)) as pool:
        yield from pool.imap(_judged, cases, chunksize=4)
