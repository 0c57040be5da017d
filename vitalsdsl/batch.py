"""Batch: the transitions of a recorded run, from whole columns. The same as the stream's, at a fraction of the time.

Columns say which rules surely stay green from the first step to the last: in a healthy run that is nearly all. Those that
may not are gone through by the stream, each with nothing but what it rests on, so that a transition is always the stream's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from vitalsdsl import rules
from vitalsdsl.guards import read_metrics
from vitalsdsl.plan import Plan
from vitalsdsl.points import Rewind, Row
from vitalsdsl.scope import Scope
from vitalsdsl.screen import Screen
from vitalsdsl.stream import Stream
from vitalsdsl.table import Table
from vitalsdsl.verdict import Transition

KEPT_PLANS = 32
"""Of runs that log other names there may be any number."""


class Batch:
    """One policy over many recorded runs. Plans are kept for runs that log the same names."""

    def __init__(self, policy: rules.Policy, digest: str = "") -> None:
        self._policy = policy
        self._digest = digest
        self._plans: dict[frozenset[str], Plan] = {}
        named = read_metrics(policy, Scope.of(policy), lambda family: [])
        self._alone = {rule.name for rule in policy.of(rules.Rule)} | {f"nonfinite({name})" for name in named}
        """What the stream can be asked for alone: the guards of a family's members are made by all that reads it."""

    def transitions(
        self,
        events: Sequence[Row | Rewind],
        run: str = "run",
        total_steps: float = math.nan,
        table: Table | None = None,
    ) -> list[Transition]:
        """What the stream would say of a run, in its order. `table` is that of the events, where it has been made for
        another policy.

        >>> from vitalsdsl.policy import load
        >>> policy = load("p", text="when loss > 3 -> orange")
        >>> rows = [Row(step, {"loss": 4.0 if step == 2 else 2.0}) for step in range(5)]
        >>> [(t.step, t.to.word) for t in Batch(policy.policy).transitions(rows)]
        [(2, 'orange'), (3, 'green')]
        """
        only = self.asked(events, total_steps, table)
        if only is not None and not only:
            return []
        return _gone_through(Stream(self._policy, run, self._digest, True, total_steps, only=only), events)

    def asked(
        self, events: Sequence[Row | Rewind], total_steps: float = math.nan, table: Table | None = None
    ) -> set[str] | None:
        """The rules for which the stream has to go through a run; None where it is to have them all."""
        table = Table.of(events) if table is None else table
        only = None if table is None else self.suspects(table, total_steps)
        return None if only is None or not only <= self._alone else only

    def suspects(self, table: Table, total_steps: float = math.nan) -> set[str]:
        """The names of the rules that may leave green in a run: for these the stream has to be asked."""
        plan = self._plan(table)
        if plan.graph.stalled:
            return {rule.name for rule in plan.rules} | set(plan.rule_of)
        by_family = {name for name, rule in plan.rule_of.items() if rule.each is not None}
        return Screen(plan, table, total_steps).may_fire() | by_family

    def _plan(self, table: Table) -> Plan:
        names = frozenset(table.points)
        plan = self._plans.get(names)
        if plan is None:
            if len(self._plans) == KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
            plan = self._plans[names] = Plan(self._policy)
            plan.see_names(sorted(names, key=lambda name: int(table.points[name].rows[0])))
        return plan


def _gone_through(stream: Stream, events: Iterable[Row | Rewind]) -> list[Transition]:
    out: list[Transition] = []
    for event in events:
        out += stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
    return out + stream.finish()
