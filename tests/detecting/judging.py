"""What a policy says on a run, and whether that was right."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.detecting.judged_cases import Case
from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language.rules import Level, Rule
from vitalsdsl.nodes.table import Table
from vitalsdsl.planning.logged import Reads
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition

SLACK = 1000
"""Steps after the end of an incident in which an alarm still counts as one about it."""
LOOK_EVERY = 200
"""Rows between two looks at which rules know something, where a run goes step by step."""


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


class Judge:
    """A policy that is tried on run after run."""

    def __init__(self, policy: LoadedPolicy) -> None:
        self._policy = policy
        names = {rule.name for rule in policy.policy.of(Rule)}
        self._read = [metric for metric in Reads(policy.policy).metrics if names & set(metric.readers)]
        self._batch = Batch(policy.policy, policy.digest)

    def judge(self, case: Case) -> Outcome:
        """Run a case under the policy."""
        run = case.run()
        truth = run.truth
        events = run.rows() if any(metric.takes(name) for metric in self._read for name in run.series) else []
        transitions, known = self._replayed(case, events)
        alarms = tuple(Alarm(t.step, t.rule, t.to) for t in transitions if t.to > t.from_)
        blind = bool(truth.shows) and not any(metric.takes(name) for metric in self._read for name in truth.shows)
        steps = int(run.steps.max() - run.steps.min()) + case.stride if len(run.steps) else 0
        return Outcome(case, steps, alarms, known, truth.level, truth.most, truth.onset, truth.end, blind)

    def _replayed(self, case: Case, events: Sequence[Row | Rewind]) -> tuple[list[Transition], frozenset[str]]:
        """The transitions, and the rules of which some condition was ever known: from columns, which is many times as
        fast, and step by step where a run or the policy has no columns."""
        table = Table.of(events)
        known = self._batch.looked(table) if table is not None else None
        if known is not None:
            return self._batch.transitions(events, case.curve, table=table), frozenset(known)
        stream = Stream(self._policy.policy, case.curve, self._policy.digest, keep_all=True)
        transitions, known = [], set()
        for count, event in enumerate(events):
            transitions += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
            if count % LOOK_EVERY == 0:
                known |= _known(stream, known)
        transitions += stream.finish()
        return transitions, frozenset(known | _known(stream, known))


def judge(case: Case, policy: LoadedPolicy) -> Outcome:
    """Run one case under a policy."""
    return Judge(policy).judge(case)


def _known(stream: Stream, before: set[str]) -> set[str]:
    return {s.name for s in stream.plan.rules if s.name not in before and any(c.latest is not None for c in s.clauses)}


_judge: Judge | None = None


def _prepare(reference: str, settings: Mapping[str, str]) -> None:
    global _judge
    _judge = Judge(load(reference, settings=settings))


def _judged(case: Case) -> Outcome:
    assert _judge is not None
    return _judge.judge(case)


def judged(cases: Iterable[Case], reference: str, settings: Mapping[str, str], processes: int) -> Iterator[Outcome]:
    """Run cases under a policy, in several processes, in the order in which they were given."""
    if processes == 1:
        yield from map(Judge(load(reference, settings=settings)).judge, cases)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _prepare, (reference, settings)) as pool:
        yield from pool.imap(_judged, cases, chunksize=4)
