"""From conditions to levels: the slow reference evaluator (section 6 of the page).

>>> rows = [{"step": s, "x": 5.0 if s > 2 else 1.0} for s in range(5)]
>>> [(t["step"], t["rule"], t["to"]) for t in evaluate("when x > 3 for 2 steps -> red", rows)]
[(4, 'x_red', 'red')]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .guards import metrics_read, nonfinite, taken_over
from .history import Feed, History, Moment, concrete, with_waits
from .policy import LEVELS, Clause, Node, Policy, Rule, parse
from .spans import Tracker, clearing
from .streams import Env, Streams
from .values import Unknown

Transition = dict[str, Any]


class ClauseState:
    """One clause of one rule (of one member): its span, whether it fires, at which rung, and how it clears."""

    def __init__(self, rule: Rule, clause: Clause, env: Env) -> None:
        self.rule, self.clause, self.env = rule, clause, env
        self.holding = Tracker(clause.span)
        self.clearing = Tracker(rule.clear_for if rule.clear_for is not None else clearing(clause.span))
        self.clear_when = Tracker(rule.clear_when_span)
        self.fired: int | None = None  # the moment at which it fired
        self.latest: Any = None
        self.forget()

    def forget(self) -> None:
        """Clearing forgets the clause's span."""
        for tracker in (self.holding, self.clearing, self.clear_when):
            tracker.forget()
        self.fired = None
        self.rung = 0
        self.onset: float | None = None
        self.true_after = 0

    @property
    def level(self) -> int:
        return 0 if self.fired is None else self.clause.rungs[self.rung].level

    def close(self, streams: Streams, i: int) -> None:
        moment = streams.moments[i]
        if streams.evaluated(self.clause.node, self.env, i, self.clause.on):
            self.latest = streams.value(self.clause.node, self.env, i)
            self._evaluation(streams, i, moment)
        if self.fired is not None and self.rule.clear_when is not None:
            self._clear_when(streams, i, moment, self.rule.clear_when)

    def _evaluation(self, streams: Streams, i: int, moment: Moment) -> None:
        value = self.latest
        if isinstance(value, Unknown):
            if self.rule.unknown_reset:  # unknown counts as false in the `for` of its `when` clauses, nowhere else
                self.holding.feed(False, moment.step, moment.time)
            return
        holds = self.holding.feed(value is True, moment.step, moment.time)
        cleared = self.clearing.feed(value is False, moment.step, moment.time)
        if self.fired is not None and value:
            self.true_after += 1
            self._climb(streams, i)
        elif self.fired is None and holds:  # it fires its first rung; its onset is fixed then
            self.fired, self.rung, self.true_after = i, 0, 0
            self.onset = self.holding.onset
            self.clear_when.forget()
        elif self.fired is not None and cleared and self.rule.clear_when is None:
            self.forget()

    def _climb(self, streams: Streams, i: int) -> None:
        """Later rungs are taken at a true evaluation, the last one due, counted from the step of firing."""
        assert self.fired is not None
        for number, rung in enumerate(self.clause.rungs):
            if number > self.rung and rung.after is not None:
                if rung.after.unit == "samples":
                    due = self.true_after >= rung.after.amount
                else:
                    age = streams.age(self.fired, i, rung.after)
                    due = age is not None and age >= rung.after.amount
                if due:
                    self.rung = number

    def _clear_when(self, streams: Streams, i: int, moment: Moment, node: Node) -> None:
        """It clears at an evaluation of `clear when` at which it holds for its span.

        Counting only evaluations after the firing step, and not while the clause's own latest evaluation is true.
        """
        assert self.fired is not None
        if moment.step <= streams.moments[self.fired].step or not streams.evaluated(node, self.env, i):
            return
        value = streams.value(node, self.env, i)
        if isinstance(value, Unknown):
            return
        if self.clear_when.feed(value is True, moment.step, moment.time) and self.latest is not True:
            self.forget()


class RuleState:
    """One rule, or one member of a rule with `each`."""

    def __init__(self, rule: Rule, member: str | None) -> None:
        self.rule, self.member = rule, member
        env = Env(rule, None, rule.each[0] if rule.each else None, member)
        self.clauses = [ClauseState(rule, clause, env) for clause in rule.clauses]
        self.inside = True
        self.reason = "condition"

    @property
    def name(self) -> str:
        return self.rule.name

    def close(self, streams: Streams, i: int) -> None:
        """`in phase P, Q`: at the first closed step outside all of them spans are forgotten and it turns green."""
        inside = not self.rule.phases or any(streams.event_state(p, i) is True for p in self.rule.phases)
        self.reason = "condition" if inside else "out of phase"
        for clause in self.clauses:
            if inside:
                clause.close(streams, i)
            elif self.inside:
                clause.forget()
                clause.latest = None
        self.inside = inside

    def level(self) -> int:
        """A rule's level is the highest level of its clauses."""
        return max((c.level for c in self.clauses), default=0)

    def onset(self) -> float | None:
        """The smallest among the clauses at the new level."""
        return min(c.onset for c in self.clauses if c.level == self.level())  # type: ignore[type-var]


class GuardState:
    """The built-in rule of one metric."""

    member = None
    reason = "nonfinite"

    def __init__(self, metric: str, level: int, kinds: set[str]) -> None:
        self.metric, self.kinds, self.at = metric, kinds, level
        self.name = f"nonfinite({metric})"
        self.began: float | None = None

    def close(self, streams: Streams, i: int) -> None:
        if not nonfinite(streams, self.metric, self.kinds, i):
            self.began = None
        elif self.began is None:
            self.began = streams.moments[i].step

    def level(self) -> int:
        return 0 if self.began is None else self.at

    def onset(self) -> float | None:
        return self.began


Key = tuple[str, "str | None"]
Levels = dict[Key, int]


class Run:
    """One pass over a list of moments, from the first."""

    def __init__(self, policy: Policy, closed: list[Moment]) -> None:
        lengths = sorted({n.args[0].amount for n in _stalled(policy)})
        self.moments = with_waits(closed, lengths)
        self.streams = Streams(policy, History(policy, self.moments))
        self.policy = policy
        self.rules: dict[Key, RuleState] = {}
        self.guards = self._guards()

    def _guards(self) -> list[GuardState]:
        if self.policy.guard is None:
            return []
        declared = self.streams.history.declared
        return [
            GuardState(name, self.policy.guard, taken_over(self.policy, self.streams, name))
            for name in metrics_read(self.streams)
            if not (name in declared and declared[name].allow_nonfinite)
        ]

    def _states(self, i: int) -> Iterator[RuleState | GuardState]:
        """In file order, then by member, the guards last."""
        for rule in self.policy.rules:
            if rule.disabled:
                continue
            members: list[str | None] = [None]
            if rule.each:
                members = [concrete(rule.each[1], stars) for stars in sorted(self.streams.members(rule.each[1], i))]
            for member in members:
                key = (rule.name, member)
                if key not in self.rules:
                    self.rules[key] = RuleState(rule, member)
                yield self.rules[key]
        yield from self.guards

    def transitions(self) -> Iterator[tuple[int, Transition]]:
        """Each change of a rule's level at a closed step, with its moment."""
        levels: Levels = {}
        for i, moment in enumerate(self.moments):
            for state in self._states(i):
                state.close(self.streams, i)
                before, now = levels.get((state.name, state.member), 0), state.level()
                levels[(state.name, state.member)] = now
                if now != before:
                    onset = state.onset() if now else None
                    yield i, _transition(moment.step, state.name, state.member, before, now, onset, state.reason)


def _stalled(policy: Policy) -> Iterator[Node]:
    def walk(node: Node) -> Iterator[Node]:
        if node.kind == "stalled":
            yield node
        for child in node.children():
            yield from walk(child)

    for statement in policy.statements:
        if isinstance(statement, Rule):
            for node in [c.node for c in statement.clauses] + [statement.clear_when]:
                if node is not None and not statement.disabled:
                    yield from walk(node)
        else:
            yield from walk(statement.node)


def _whole(x: float | None) -> float | int | None:
    return int(x) if x is not None and x == int(x) else x


def _transition(
    step: float, rule: str, member: str | None, before: int, now: int, onset: float | None, reason: str
) -> Transition:
    return {
        "step": _whole(step),
        "rule": rule,
        "member": member,
        "from": LEVELS[before],
        "to": LEVELS[now],
        "onset": _whole(onset),
        "reason": reason,
    }


def evaluate(policy_text: str, rows: Iterable[Mapping[str, Any]], near: list[float] | None = None) -> list[Transition]:
    """The transitions of a policy over rows in canonical JSON lines form.

    A rewind drops the points after k and starts over: the truncated history is evaluated from scratch, and only the
    transitions of the new attempt are added, with those of reason `superseded` at k where levels differ.

    `near`, where given, is filled with the steps at which a comparison was decided by rounding: before blaming a
    difference from another evaluator on a reading of the page, look there.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
    policy = parse(policy_text)
    feed = Feed()
    found: list[Transition] = []
    near = [] if near is None else near
    pending = False
    for row in rows:
        if "rewind" in row:
            k = float(row["rewind"])
            feed.close()
            if pending:
                found += _attempt(policy, feed.closed, feed.attempt, near)
            old = feed.closed
            if feed.rewind(k):
                found += _superseded(_levels(policy, old), _levels(policy, feed.closed), k)
            pending = False
        else:
            feed.row(dict(row))
            pending = True
    feed.close()
    if pending:
        found += _attempt(policy, feed.closed, feed.attempt, near)
    return found


def _attempt(policy: Policy, closed: list[Moment], attempt: int, near: list[float]) -> list[Transition]:
    run = Run(policy, closed)
    found = [t for i, t in run.transitions() if run.moments[i].attempt == attempt]
    near += run.streams.near
    return found


def _levels(policy: Policy, closed: list[Moment]) -> Levels:
    levels: Levels = {}
    for _, t in Run(policy, closed).transitions():
        levels[(t["rule"], t["member"])] = LEVELS.index(t["to"])
    return levels


def _superseded(old: Levels, new: Levels, k: float) -> list[Transition]:
    """A rule whose level differs from the one it had at k gives one transition at step k, reason `superseded`."""
    keys = [key for key in old if old.get(key, 0) != new.get(key, 0)]
    return [_transition(k, *key, old.get(key, 0), new.get(key, 0), None, "superseded") for key in keys]
