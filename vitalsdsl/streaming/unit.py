"""A unit: the conditions of one rule and what follows them, evaluated node by node where it is not surely quiet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from vitalsdsl.kernels.ahead import Ahead
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.signals import Freeze, Root
from vitalsdsl.streaming.glance import CannotSay, Glance, below
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, RuleState


class Unit:
    """The conditions of one rule and what follows them, evaluated node by node."""

    def __init__(self, rule: RuleState, roots: Sequence[Root], touched: list[RuleState]) -> None:
        self.rule = rule
        self.roots = list(roots)
        self.nodes: list[nd.Node] = []
        """What is evaluated with them."""
        self._touched = touched
        self._runs: list[Callable[[int, float], None]] = []
        self._hand_over: list[Callable[[], None]] = []
        self._windows: list[Deferred] = []
        """Those that are prepared ahead: while the span of one has not been lived, a condition may well be unknown."""

    def prepare(self, order: Sequence[nd.Node], given: Collection[nd.Node], aheads: Mapping[State, Ahead]) -> None:
        """Find what is evaluated, but for what is given at each step, and whose points come late."""
        needed = {inner for root in self.roots for inner in below(_condition(root))} - set(given)
        self.nodes = [node for node in order if node in needed]
        self._runs = [node.run for node in (*self.nodes, *self.roots)]
        self._hand_over = [ahead.hand_over for ahead in read_ahead(self.nodes, aheads)]
        states = [node.state for node in self.nodes if isinstance(node, nd.Function)]
        self._windows = [state for state in states if isinstance(state, Deferred) and state in aheads]

    def run(self, step: int, time: float) -> bool:
        """Evaluate it; whether it has to be evaluated at the next step whatever that brings."""
        self._touched.append(self.rule)
        for hand_over in self._hand_over:
            hand_over()
        for run in self._runs:
            run(step, time)
        is_young = any(not window.is_warm(step, time) for window in self._windows)
        return not all(_rests(root, is_young) for root in self.roots)

    def surely_quiet(self, glance: Glance) -> str | None:
        """When none of its conditions can be true. None where only evaluating tells."""
        if any(isinstance(node, op.Stalled) for root in self.roots for node in _all_below(root)):
            return None
        conditions = dict.fromkeys(_condition(root) for root in self.roots if not isinstance(root, ClearWhen))
        freezes = any(isinstance(root, Freeze) for root in self.roots)  # they look at what is unknown, too
        try:
            said = [glance.surely(condition) for condition in conditions]
        except CannotSay:
            return None
        tests = [surely.false if freezes else surely.not_true for surely in said]
        if not tests:  # only `clear when`, which asks for nothing until something has fired
            return "True"
        return tests[0] if len(tests) == 1 else " and ".join(f"({test})" for test in tests)


def _condition(root: Root) -> nd.Node:
    assert isinstance(root, (Clause, ClearWhen, Freeze))
    return root.condition


def _rests(root: Root, is_young: bool) -> bool:
    """Whether another evaluation at which its condition is false (or still unknown) would change nothing."""
    if isinstance(root, Clause):
        counts = root.holding.span.n or root.clear_holding.span.n
        is_out = root.gate is not None and not root.gate.value
        known = is_out or root.latest is False or is_young and root.latest is None
        return known and root.fired is None and root.holding.onset is None and not counts
    if isinstance(root, ClearWhen):
        return all(clause.fired is None for clause in root.clauses)
    return not (isinstance(root, Freeze) and root.freezing)


def _all_below(node: nd.Node) -> set[nd.Node]:
    found: set[nd.Node] = set()
    open_ = [node]
    while open_:
        here = open_.pop()
        if here not in found:
            found.add(here)
            open_ += here.inputs
    return found


def read_ahead(nodes: Iterable[nd.Node], aheads: Mapping[State, Ahead]) -> list[Ahead]:
    """Of which streams the windows are read."""
    states = [node.state for node in nodes if isinstance(node, nd.Function)]
    return list(dict.fromkeys(aheads[state] for state in states if state in aheads))
