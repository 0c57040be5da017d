"""Followers: what looks at conditions, and is told what they are where that is sure; elsewhere it is evaluated node by node."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vitalsdsl.kernels.ahead import Ahead
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.signals import Event, Freeze, Root
from vitalsdsl.streaming.glance import CannotSay, Glance, Names, Stream, Surely
from vitalsdsl.streaming.part import Part
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, Guard, RuleState

Follower = Clause | ClearWhen | Freeze
"""What looks at a condition of a rule."""


class Unit:
    """The conditions of one rule and what follows them."""

    def __init__(self, rule: RuleState, roots: Sequence[Follower], touched: list[RuleState]) -> None:
        self.rule = rule
        self.roots = list(roots)
        self.quiet: str | None = None
        """When none of its conditions can be true. None where only evaluating tells."""
        self.said: list[Surely] = []
        """When each of its conditions surely is so, and is not. Empty where only evaluating tells."""
        self._touched = touched
        conditions = self.conditions
        self._sees = [(root, conditions.index(root.condition)) for root in roots]
        self._part: Part | None = None

    @property
    def waits_outside(self) -> bool:
        """Whether nothing of it is looked at while the run is outside the rule's phases."""
        return self.rule.gate is not None and not any(isinstance(root, Freeze) for root in self.roots)

    @property
    def conditions(self) -> list[nd.Node]:
        """Each once."""
        return list(dict.fromkeys(root.condition for root in self.roots))

    def look_over(self, glance: Glance) -> None:
        """Find out what can be said of it."""
        said = _said(self.roots, [root.condition for root in self.roots if not isinstance(root, ClearWhen)], glance)
        if said is None:
            return
        freezes = any(isinstance(root, Freeze) for root in self.roots)  # they look at what is unknown, too
        tests = list(dict.fromkeys(surely.false if freezes else surely.not_true for surely in said))
        # With `clear when` alone nothing is asked until something has fired.
        self.quiet = tests[0] if len(tests) == 1 else " and ".join(f"({test})" for test in tests) or "True"
        self.said = _said(self.roots, self.conditions, glance) or []

    def prepare(self, nodes: Sequence[nd.Node], aheads: Mapping[State, Ahead]) -> None:
        """What stands below its conditions, but for what is evaluated at each step."""
        self._part = Part([*nodes, *self.roots], aheads)

    def run(self, step: int, time: float) -> bool:
        """Evaluate it; whether it has to be looked at in the next step whatever that brings."""
        assert self._part is not None
        self._part.run(step, time)
        self._touch()
        return self.is_restless()

    def is_restless(self) -> bool:
        """Whether it has to be looked at in the next step whatever that brings."""
        return not all(map(_rests, self.roots))

    def see(self, step: int, time: float, *said: bool) -> tuple[bool, float]:
        """Take in what each of its conditions is at a step. The same, and up to which step nothing changes as long as they
        stay so."""
        still = math.inf
        for root, place in self._sees:
            root.see(step, time, said[place])
            until = root.unmoved_until(step)
            if until < still:
                still = until
        self._touch()
        return still < math.inf or True in said, still

    def _touch(self) -> None:
        if self.rule.gate is not None or self.rule.is_due():
            self._touched.append(self.rule)

    def never_fires(self, glance: Glance) -> str | None:
        """When none of its conditions can be true in a whole chunk of points to come. None where that cannot be said, or
        where something else is to be looked at."""
        if self.rule.gate is not None or not all(isinstance(root, (Clause, ClearWhen)) for root in self.roots):
            return None
        said = [glance.surely(root.condition).never for root in self.roots if isinstance(root, Clause)]
        if not said or None in said:
            return None
        return " and ".join(f"({never})" for never in said)


class Onlookers:
    """Events, and conditions that freeze references, that look at one condition: told what it is where that is sure;
    elsewhere it is evaluated."""

    def __init__(self, condition: nd.Node, roots: Iterable[Event | Freeze]) -> None:
        self.condition = condition
        self.roots = list(roots)
        self.said: Surely | None = None
        """When the condition surely is so, and is not. None where only evaluating tells."""
        self._part: Part | None = None

    def look_over(self, glance: Glance) -> None:
        """Find that out."""
        said = _said(self.roots, [self.condition], glance)
        self.said = said[0] if said else None

    def prepare(self, nodes: Sequence[nd.Node], aheads: Mapping[State, Ahead]) -> None:
        """What stands below the condition, but for what is evaluated at each step."""
        self._part = Part([*nodes, *self.roots], aheads)

    def look(self, step: int, time: float) -> None:
        assert self._part is not None
        self._part.run(step, time)

    def are_told(self, step: int, time: float, said: bool) -> None:
        for root in self.roots:
            root.see(step, time, said)


@dataclass(frozen=True)
class Sorted:
    """The roots that run at a step: those that follow a rule's conditions, those that look at some other condition of which
    something can be said, and all others, which are evaluated at each step."""

    units: list[Unit]
    onlookers: list[Onlookers]
    others: list[Root]


def sorted_out(
    rules: Iterable[RuleState],
    due: Iterable[nd.Node],
    streams: Mapping[nd.Node, Stream],
    lets: Collection[nd.Node],
    touched: list[RuleState],
) -> Sorted:
    """Sort the roots among the nodes that are due; and have the windows noted in their streams that are prepared for them."""
    others = [node for node in due if isinstance(node, Root) and not isinstance(node, Guard) and node not in lets]
    units = []
    for rule in rules:
        followers = _followers(rule, others)
        others = [root for root in others if root not in followers]
        if followers:
            units.append(Unit(rule, followers, touched))
    by_condition: dict[nd.Node, list[Event | Freeze]] = {}
    for root in others:
        if isinstance(root, (Event, Freeze)):
            by_condition.setdefault(root.inputs[0], []).append(root)
    onlookers = [Onlookers(condition, roots) for condition, roots in by_condition.items()]
    glance = Glance(streams, Names(), lets=lets)
    for onlooker in onlookers:
        onlooker.look_over(glance)
    for unit in units:
        unit.look_over(glance)
    onlookers = [each for each in onlookers if each.said is not None]
    looking = {root for each in onlookers for root in each.roots}
    return Sorted(units, onlookers, [root for root in others if root not in looking])


def _followers(rule: RuleState, roots: Iterable[Root]) -> list[Follower]:
    """Which of some roots stand and fall with a rule's conditions."""
    conditions = {clause.condition for clause in rule.clauses}
    return [
        root
        for root in roots
        if isinstance(root, Clause)
        and root in rule.clauses
        or isinstance(root, ClearWhen)
        and root.clauses[0] in rule.clauses
        or isinstance(root, Freeze)
        and root.condition in conditions
    ]


def _said(roots: Sequence[Root], conditions: Iterable[nd.Node], glance: Glance) -> list[Surely] | None:
    """When conditions surely are so, and are not. None where only evaluating tells."""
    if any(map(_stands_on_the_clock, roots)):
        return None
    try:
        return [glance.surely(condition) for condition in dict.fromkeys(conditions)]
    except CannotSay:
        return None


def _rests(root: Follower) -> bool:
    """Whether another evaluation at which its condition is false or unknown would change nothing."""
    if isinstance(root, Clause):
        counts = root.holding.span.n or root.clear_holding.span.n
        is_out = root.gate is not None and not root.gate.value
        at_rest = is_out or root.latest is not True
        return at_rest and root.fired is None and root.holding.onset is None and not counts
    if isinstance(root, ClearWhen):
        return all(clause.fired is None for clause in root.clauses)
    return not root.freezing


def _stands_on_the_clock(node: nd.Node) -> bool:
    """Whether time alone may change what is below a node, however far down."""
    found: set[nd.Node] = set()
    open_ = [node]
    while open_:
        here = open_.pop()
        if here not in found:
            found.add(here)
            open_ += here.inputs
    return any(isinstance(here, op.Stalled) for here in found)
