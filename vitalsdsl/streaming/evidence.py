"""Evidence: what the message of a rule looks at, evaluated only where the rule changes its level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vitalsdsl.kernels.ahead import Ahead
from vitalsdsl.kernels.state import State
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes.graph import in_order
from vitalsdsl.planning.plan import Plan
from vitalsdsl.streaming.part import Part
from vitalsdsl.verdicts.verdict import RuleState


class Evidence:
    """By rule the nodes of its conditions and of the values in its message, as far as the step passes them over."""

    def __init__(self, plan: Plan, skipped: Iterable[nd.Node], aheads: Mapping[State, Ahead]) -> None:
        self._plan = plan
        self._skipped = frozenset(skipped)
        self._aheads = aheads
        self._parts: dict[RuleState, Part] = {}

    def bring_up(self, touched: Iterable[RuleState], step: int, time: float) -> None:
        """Evaluate it for those of some rules that are about to change."""
        for rule in touched:
            if rule.is_due():
                part = self._parts.get(rule)
                if part is None:
                    part = self._parts[rule] = self._part(rule)
                part.run(step, time)

    def _part(self, rule: RuleState) -> Part:
        fields = self._plan.fields.get((rule.name, rule.member), ())
        looked_at = [clause.condition for clause in rule.clauses] + [node for node, _ in fields]
        return Part([node for node in in_order(looked_at) if node in self._skipped], self._aheads)
