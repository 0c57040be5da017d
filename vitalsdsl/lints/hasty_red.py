"""Red in a single step, or without a bound."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.looked import alternatives, conjuncts

_LONG = 60
"""Letters of a clause that a help does not repeat."""

_TAKE_TIME = frozenset("fraction onsets monotone_up monotone_down rising falling flat".split())
_ALL_OF_THE_WINDOW = frozenset("fraction onsets median min quantile since".split())


class HastyRed(Lint):
    """Red rolls a run back: one noisy point should not do that, but for NaN, which does not go away.

    Give it a `for`, or let it climb from orange. Conditions that take time by themselves are left alone: events with a
    `for`, sequences, `missing`, `stalled`, a median or a share over a window.
    """

    code = "V406"
    bad = "limit rollback 3 per 10k steps\nwhen loss > 10 -> red"
    good = "limit rollback 3 per 10k steps\nwhen loss > 10 for 20 steps -> red"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            if clause.rungs[0].level is Level.RED and clause.for_ is None and not _takes_time(clause.condition, at):
                yield self.found("red can fire on a single point", clause.rungs[0].span, "no `for`",
                                 "write `for 20 steps`, or `-> orange -> red after 100 steps`")  # fmt: skip


class UnboundedRed(Lint):
    """Without a cooldown or a budget a red rule can roll a run back again and again, into the same bad data.

    Write `limit rollback 3 per 10k steps` on a line of its own: it is the budget of all rules together, and beyond it red
    does what orange does. Or give the rule a `cooldown`, in which it asks for nothing more: `rule NAME { when loss > 10 for
    20 steps -> red cooldown 2k steps }`. Where red is to roll nothing back, say what it does
    instead: `-> red do alert, tag, pause`.
    """

    code = "V401"
    bad = "when loss > 10 for 20 steps -> red"
    good = "limit rollback 3 per 10k steps\nwhen loss > 10 for 20 steps -> red"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if any(limit.action == "rollback" for limit in at.policy.of(rules.Limit)):
            return
        default = next((s.actions for s in at.policy.of(rules.LevelDefault) if s.level is Level.RED), None)
        for rule, clause in at.clauses:
            red = next((r for r in clause.rungs if r.level is Level.RED), None)
            actions = red.actions if red is not None and red.actions is not None else default
            rolls = actions is None or any(a.name == "rollback" for a in actions)
            own = red is not None and red.span.source is at.policy.source  # an override may have brought it
            if red is not None and own and rolls and rule.body.cooldown is None and not rule.body.shadow:
                said = "…" if rule.written or len(clause.span.text) > _LONG else clause.span.text
                yield self.found(
                    "red without a cooldown or a budget", red.span, "may roll back again and again",
                    "write `limit rollback 3 per 10k steps` on a line of its own: beyond it red does what orange does",
                    f"or `rule {rule.name} {{ {said} cooldown 2k steps }}`: for so long it asks for nothing more",
                    "or, where red is to roll nothing back, `-> red do alert, tag, pause`",
                )  # fmt: skip
                return


def _takes_time(node: ex.Expression, at: Looked) -> bool:
    """Whether one point is not enough to make a condition true, or it is about NaN."""
    if isinstance(node, ex.Or):
        return all(_takes_time(part, at) for part in alternatives(node))
    if isinstance(node, ex.And):
        return any(_takes_time(part, at) for part in conjuncts(node))
    if isinstance(node, (ex.Is, ex.Held, ex.Then, ex.Missing, ex.Stalled)):
        return True
    if isinstance(node, ex.Name) and node.path in at.scope.events:
        event = at.scope.events[node.path]
        return event.for_ is not None or _takes_time(event.condition, at)
    if isinstance(node, ex.Call):
        return node.function in _TAKE_TIME or any(isinstance(a.value, ex.Held) for a in node.arguments)
    return isinstance(node, ex.Comparison) and any(
        isinstance(operand, ex.Call) and operand.function in _ALL_OF_THE_WINDOW for operand in node.operands[:1]
    )
