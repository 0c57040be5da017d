"""Batch: the transitions of a recorded run, from whole columns. The same as the stream's, at a fraction of the time.

Columns say which rules surely stay green from the first step to the last, and of nearly all others where they fire and
clear. Of which they cannot, the stream goes through the run, each rule with nothing but what it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from vitalsdsl.columns.changes import Changes
from vitalsdsl.columns.joined import Joined
from vitalsdsl.columns.midway import put_after
from vitalsdsl.columns.run_columns import CannotSay, clock_of
from vitalsdsl.columns.screen import Screen, Stretch
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language import rules
from vitalsdsl.language.guards import read_metrics
from vitalsdsl.language.rules import Level
from vitalsdsl.language.scope import Scope
from vitalsdsl.nodes.table import Table
from vitalsdsl.planning.plan import Plan
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition

KEPT_PLANS = 32
"""Of runs that log other names there may be any number."""

MOST_STAGES = 16
"""So many times names that a policy reads may come for the first time before a run is left to the stream."""


WORTH_LEAVING_OUT = 20
"""Rows before the first at which a rule may leave green, from which on the stream begins there."""


class Batch:
    """One policy over many recorded runs. Plans are kept for runs whose names come alike."""

    def __init__(self, policy: rules.Policy, digest: str = "") -> None:
        self._policy = policy
        self._digest = digest
        self._plans: dict[tuple[tuple[str, ...], ...], Joined] = {}
        self._bare = Plan(policy)
        named = read_metrics(policy, Scope.of(policy), lambda family: [])
        self._alone = {rule.name for rule in policy.of(rules.Rule)} | {f"nonfinite({name})" for name in named}
        """What the stream can be asked for alone: the guards of a family's members are made by all that reads it."""

    def transitions(
        self,
        events: Iterable[Row | Rewind],
        run: str = "run",
        total_steps: float = math.nan,
        table: Table | None = None,
        wordless: bool = False,
    ) -> list[Transition]:
        """What the stream would say of a run, in its order. `table` is that of the events, where it has been made for
        another policy; `wordless` for who asks neither for messages nor for values nor margins, which take the longest.

        >>> from vitalsdsl.policies.policy import load
        >>> policy = load("p", text="when loss > 3 -> orange")
        >>> rows = [Row(step, {"loss": 4.0 if step == 2 else 2.0}) for step in range(5)]
        >>> [(t.step, t.to.word) for t in Batch(policy.policy).transitions(rows)]
        [(2, 'orange'), (3, 'green')]
        """
        return self.replayed(events, run, total_steps, table, wordless).transitions

    def replayed(
        self,
        events: Iterable[Row | Rewind],
        run: str = "run",
        total_steps: float = math.nan,
        table: Table | None = None,
        wordless: bool = False,
    ) -> Replayed:
        """The same, with where the run stands at its end."""
        table = Table.of(events) if table is None else table
        if table is None:
            stream = Stream(self._policy, run, self._digest, True, total_steps)
            transitions = _gone_through(stream, events)
            counter = stream.plan.graph.clock.counter
            return Replayed(transitions, stream.level, stream.names, stream.late_points, counter)
        counter = clock_of(self._bare, table, total_steps).counter
        joined, begins = self.laid_out(table)
        if joined is None:
            found = _gone_through(self._begun(run, total_steps, None, table, 0), self._needed(events, table, None))
        else:
            screen = Screen(joined, begins, table, total_steps)
            changes = Changes(screen, joined.plan, run, self._digest, wordless)
            found = self._told(joined, screen, changes, events, run, total_steps, table)
        return Replayed(found, _level(found), table.points.keys(), 0, counter, table)

    def _told(
        self,
        joined: Joined,
        screen: Screen,
        changes: Changes,
        events: Iterable[Row | Rewind],
        run: str,
        total_steps: float,
        table: Table,
    ) -> list[Transition]:
        """Each rule's transitions from columns; of those of which they do not say enough, from the stream."""
        found: list[Transition] = []
        left: dict[str, Stretch] = {}
        for rule in joined.plan.rules:
            screen.columns.spare()
            try:
                found += changes.of(rule)
            except CannotSay:
                stretch = screen.stretch(rule)
                if stretch is not None:
                    left[rule.name] = stretch.joined_with(left.get(rule.name, stretch))
        if left:
            only = left if left.keys() <= self._alone and not self._speak_between_steps(left, table) else None
            first = 0 if only is None else min(stretch.first for stretch in left.values())
            until = math.inf if only is None else _step_after(table, max(stretch.last for stretch in left.values()))
            stream = self._begun(run, total_steps, only, table, first)
            gone = _gone_through(stream, self._needed(events, table, stream.closed), until)
            if only is None:
                return gone
            found = [one for one in found if one.rule not in left] + gone
        return _in_order(found, joined.plan)

    def _speak_between_steps(self, rules: Collection[str], table: Table) -> bool:
        """Whether some of these rules stand on what the clock finds: in what order only the stream knows."""
        return bool(Joined(self._policy, self._stages(table).names, rules).plan.graph.stalled)

    def _begun(self, run: str, total_steps: float, only: Collection[str] | None, table: Table, row: int) -> Stream:
        """A stream for some of the rules that stands before a row, or else at the beginning."""

        def new() -> Stream:
            return Stream(self._policy, run, self._digest, False, total_steps, keep_rows=False, only=only)

        return self._begun_at(new, only, table, row)

    def _begun_at(self, new: Callable[[], Stream], only: Collection[str] | None, table: Table, row: int) -> Stream:
        stages = self._stages(table)
        stream = new()
        if row < WORTH_LEAVING_OUT or len(stages.names) > MOST_STAGES:
            return stream
        past = sum(begin < row for begin in stages.begins[1:])
        joined = Joined(self._policy, stages.names[:past], only)
        before = table.before(row)
        screen = Screen(joined, stages.begins[: past + 1], before, stream.total_steps)
        changes = Changes(screen, joined.plan, stream.run, self._digest)
        try:
            return stream if put_after(stream, joined, screen, changes, before) else new()
        finally:
            screen.columns.let_go()

    def caught_up(self, table: Table, new: Callable[[], Stream]) -> tuple[Stream, list[Transition]]:
        """A stream that stands behind all rows of a table as if it had been given them, and what it would have said. `new`
        makes one of this policy that has seen nothing.

        >>> from vitalsdsl.policies.policy import load
        >>> policy = load("p", text="when mean(loss, 3 steps) > 3 -> orange").policy
        >>> table = Table.of(Row(step, {"loss": 2.0}) for step in range(2000))
        >>> stream, said = Batch(policy).caught_up(table, lambda: Stream(policy))
        >>> said, stream.closed, [t.step for t in stream.push({"loss": 9.0}, 2000) + stream.close()]
        ([], 1999, [2000])
        """
        stream = new()
        joined, begins = self.laid_out(table)
        if joined is None or not len(table):
            return stream, _gone_through(stream, table.events())
        run, total_steps = stream.run, stream.total_steps
        screen = Screen(joined, begins, table, total_steps)
        changes = Changes(screen, joined.plan, run, self._digest)
        try:
            if put_after(stream, joined, screen, changes, table):
                return stream, self._told(joined, screen, changes, table.events(), run, total_steps, table)
            first = min((stretch.first for stretch in screen.may_fire().values()), default=0)
        finally:
            screen.columns.let_go()
        stream = self._begun_at(new, None, table, first)
        return stream, _gone_through(stream, table.events(stream.closed))

    def suspects(self, table: Table, total_steps: float = math.nan) -> dict[str, Stretch] | None:
        """The names of the rules that may leave green in a run, and where: for these the stream has to be asked. None for
        all."""
        joined, begins = self.laid_out(table)
        if joined is None:
            return None
        return Screen(joined, begins, table, total_steps).may_fire()

    def looked(self, table: Table, total_steps: float = math.nan) -> set[str] | None:
        """The names of the rules of which a condition was known at some step. None where only the stream can tell."""
        joined, begins = self.laid_out(table)
        return None if joined is None else Screen(joined, begins, table, total_steps).looked()

    def _needed(self, events: Iterable[Row | Rewind], table: Table, closed: int | None) -> Iterator[Row]:
        """The rows of a run after a step, with only those names that the policy reads, or a member brings in that it
        reads."""
        joined, _ = self.laid_out(table)
        reads = {name for name in table.points if joined is None or joined.plan.metrics.reads(name)}
        for event in events:
            assert isinstance(event, Row)  # a run that goes back has no table
            if closed is not None and event.step <= closed:
                continue
            if len(reads) == len(table.points):
                yield event
            else:
                values = {name: value for name, value in event.values.items() if name in reads}
                yield Row(event.step, values, event.time)

    def left_to_the_stream(self) -> dict[str, str]:
        """Of the rules that are gone through step by step whatever a run holds, why.

        >>> from vitalsdsl.policies.policy import load
        >>> Batch(load("p", text="when (loss > 3 for 2 epochs) for 5 samples -> red").policy).left_to_the_stream()
        {'loss_red': "a span by the run's counters"}
        """
        nothing = Table.of([])
        assert nothing is not None
        joined = Joined(self._policy, [])
        screen, found = Screen(joined, [0], nothing), {}
        for rule in joined.plan.rules:
            try:
                for clause in rule.clauses:
                    screen.can_be(clause)
            except CannotSay as why:
                found[rule.name] = str(why)
        return found

    def laid_out(self, table: Table) -> tuple[Joined | None, list[int]]:
        """The plan of a run's names, and the rows at which its stages begin. None for a plan that would have too many, or
        where a member brings in names that nobody had asked for before it."""
        stages = self._stages(table)
        if len(stages.names) > MOST_STAGES:
            return None, []
        key = tuple(map(tuple, stages.names))
        if key not in self._plans:
            if len(self._plans) == KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = Joined(self._policy, stages.names)
        found = self._plans[key]
        if any(found.plan.metrics.reads(name) for name in stages.unread):
            return None, []
        return found, stages.begins

    def _stages(self, table: Table) -> _Stages:
        """The names that the policy reads, with those that come at the same step together."""
        stages = _Stages([0], [], [])
        for name in sorted(table.points, key=lambda name: int(table.points[name].rows[0])):
            row = int(table.points[name].rows[0])
            if not self._bare.metrics.reads(name):
                stages.unread.append(name)
                continue
            if not stages.names or row > stages.begins[-1]:
                stages.begins.append(row)
                stages.names.append([])
            stages.names[-1].append(name)
        return stages


@dataclass(frozen=True)
class Replayed:
    """What became of a recorded run: its transitions, its level at the end, the names under which something was logged,
    the late points that no rule read, the newest value of a counter (NaN where the run does not have it), and its columns,
    where it has any."""

    transitions: list[Transition]
    level: Level
    names: Collection[str]
    late_points: int
    counter: Callable[[str], float]
    table: Table | None = None


@dataclass(frozen=True)
class _Stages:
    """At which rows the names that a policy reads come for the first time, and which; the first stage has none."""

    begins: list[int]
    names: list[list[str]]
    unread: list[str]


def _in_order(transitions: list[Transition], plan: Plan) -> list[Transition]:
    """As the stream says them."""
    by_rule: dict[tuple[str, str | None], list[Transition]] = {}
    for one in transitions:
        by_rule.setdefault((one.rule, one.member), []).append(one)
    place = {(rule.name, rule.member): (rule.index, rule.member or "") for rule in plan.rules}
    found = list(chain.from_iterable(by_rule[rule] for rule in sorted(by_rule, key=place.__getitem__)))
    found.sort(key=attrgetter("step"))  # those of one rule are in order: that takes next to no time
    return found


def _level(transitions: Iterable[Transition]) -> Level:
    """Where a run stands after its transitions, which are in order."""
    now = {(one.rule, one.member): one.to for one in transitions}
    return max(now.values(), default=Level.GREEN)


def _step_after(table: Table, row: int) -> float:
    """The first step beyond a row."""
    return int(table.rows.steps[row + 1]) if row + 1 < len(table) else math.inf


def _gone_through(stream: Stream, events: Iterable[Row | Rewind], until: float = math.inf) -> list[Transition]:
    """What the stream says of a run. From the step `until` on no rule leaves green: once all are, there is no more to say."""
    out: list[Transition] = []
    for event in events:
        if isinstance(event, Rewind):
            out += stream.rewind(event.step)
            continue
        out += stream.push_row(event)
        if event.step > until and not stream.level:
            return out
    return out + stream.finish()
