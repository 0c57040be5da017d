"""Red in a single step, or without a bound."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.rules import Level


class HastyRed(Lint):
    """Red rolls a run back: one noisy point should not do that, but for NaN, which does not go away.

    Give it a `for`, or let it climb from orange.
    """

    code = "V406"
    bad = "limit rollback 3 per 10k steps\nwhen loss > 10 -> red"
    good = "limit rollback 3 per 10k steps\nwhen loss > 10 for 20 steps -> red"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            if clause.rungs[0].level is Level.RED and clause.for_ is None and not _about_nonfinite(clause.condition):
                yield self.found("red can fire on a single point", clause.rungs[0].span, "no `for`",
                                 "write `for 20 steps`, or `-> orange -> red after 100 steps`")  # fmt: skip


class UnboundedRed(Lint):
    """Without a cooldown or a budget a red rule can roll a run back again and again, into the same bad data."""

    code = "V401"
    bad = "rule diverged { when loss > 10 for 20 steps -> red }"
    good = "limit rollback 3 per 10k steps\nrule diverged { when loss > 10 for 20 steps -> red }"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if any(limit.action == "rollback" for limit in at.policy.of(rules.Limit)):
            return
        for rule, clause in at.clauses:
            red = next((r for r in clause.rungs if r.level is Level.RED), None)
            rolls = red is not None and (red.actions is None or any(a.name == "rollback" for a in red.actions))
            if red is not None and rolls and rule.body.cooldown is None:
                yield self.found("red without a cooldown or a budget", red.span, "again and again?",
                                 "add `limit rollback 3 per 10000 steps`, or a `cooldown` in the rule")  # fmt: skip
                return


def _about_nonfinite(node: ex.Expression) -> bool:
    if isinstance(node, (ex.Or, ex.And)):
        return _about_nonfinite(node.left) or _about_nonfinite(node.right)
    return isinstance(node, ex.Is)
