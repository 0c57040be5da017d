"""A unit: the conditions of one rule and what follows them, evaluated node by node where it is not surely quiet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vitalsdsl.kernels.ahead import Ahead
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.signals import Freeze, Root
from vitalsdsl.streaming.glance import CannotSay, Glance
from vitalsdsl.streaming.part import Part
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, RuleState


class Unit:
    """The conditions of one rule and what follows them, evaluated node by node."""

    def __init__(self, rule: RuleState, roots: Sequence[Root], touched: list[RuleState]) -> None:
        self.rule = rule
        self.roots = list(roots)
        self._touched = touched
        self._part: Part | None = None

    @property
    def waits_outside(self) -> bool:
        """Whether nothing of it is looked at while the run is outside the rule's phases."""
        return self.rule.gate is not None and not any(isinstance(root, Freeze) for root in self.roots)

    @property
    def conditions(self) -> list[nd.Node]:
        return [condition_of(root) for root in self.roots]

    def prepare(self, nodes: Sequence[nd.Node], aheads: Mapping[State, Ahead]) -> None:
        """What stands below its conditions, but for what is evaluated at each step."""
        self._part = Part([*nodes, *self.roots], aheads)

    def run(self, step: int, time: float) -> bool:
        """Evaluate it; whether it has to be evaluated at the next step whatever that brings."""
        assert self._part is not None
        self._touched.append(self.rule)
        self._part.run(step, time)
        return self.is_restless()

    def is_restless(self) -> bool:
        """Whether it has to be evaluated at the next step whatever that brings."""
        return not all(map(_rests, self.roots))

    def surely_quiet(self, glance: Glance) -> str | None:
        """When none of its conditions can be true. None where only evaluating tells."""
        if any(map(stands_on_the_clock, self.roots)):
            return None
        conditions = dict.fromkeys(condition_of(root) for root in self.roots if not isinstance(root, ClearWhen))
        freezes = any(isinstance(root, Freeze) for root in self.roots)  # they look at what is unknown, too
        try:
            said = [glance.surely(condition) for condition in conditions]
        except CannotSay:
            return None
        tests = [surely.false if freezes else surely.not_true for surely in said]
        if not tests:  # only `clear when`, which asks for nothing until something has fired
            return "True"
        return tests[0] if len(tests) == 1 else " and ".join(f"({test})" for test in tests)

    def never_fires(self, glance: Glance) -> str | None:
        """When none of its conditions can be true in a whole chunk of points to come. None where that cannot be said, or
        where something else is to be looked at."""
        if self.rule.gate is not None or not all(isinstance(root, (Clause, ClearWhen)) for root in self.roots):
            return None
        said = [glance.surely(condition_of(root)).never for root in self.roots if isinstance(root, Clause)]
        if not said or None in said:
            return None
        return " and ".join(f"({never})" for never in said)


def condition_of(root: Root) -> nd.Node:
    assert isinstance(root, (Clause, ClearWhen, Freeze))
    return root.condition


def _rests(root: Root) -> bool:
    """Whether another evaluation at which its condition is false or unknown would change nothing."""
    if isinstance(root, Clause):
        counts = root.holding.span.n or root.clear_holding.span.n
        is_out = root.gate is not None and not root.gate.value
        at_rest = is_out or root.latest is not True
        return at_rest and root.fired is None and root.holding.onset is None and not counts
    if isinstance(root, ClearWhen):
        return all(clause.fired is None for clause in root.clauses)
    return not (isinstance(root, Freeze) and root.freezing)


def stands_on_the_clock(node: nd.Node) -> bool:
    """Whether time alone may change what is below a node, however far down."""
    found: set[nd.Node] = set()
    open_ = [node]
    while open_:
        here = open_.pop()
        if here not in found:
            found.add(here)
            open_ += here.inputs
    return any(isinstance(here, op.Stalled) for here in found)
