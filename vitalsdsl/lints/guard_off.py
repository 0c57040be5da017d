"""The guard against NaN is off for a metric that a red rule reads."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import name_text
from vitalsdsl.language.guards import taken_over
from vitalsdsl.language.rules import Level
from vitalsdsl.lints.base import Lint, Looked


class GuardOff(Lint):
    """A comparison with NaN is unknown, and an unknown fires nothing.

    Where a policy switches the built-in guard off for a metric (`nonfinite off`, `allow nonfinite`) on which a red rule
    stands, that rule goes quiet in the very moment for which it was written. Say `METRIC is not finite` in a rule.
    """

    code = "V209"
    severity = Severity.INFO
    bad = 'metric loss = "loss" allow nonfinite\nlimit rollback 3 per 10k steps\nwhen loss > 10 for 20 steps -> red'
    good = 'metric loss = "loss"\nlimit rollback 3 per 10k steps\nwhen loss > 10 for 20 steps -> red'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        off = any(s.level is None for s in at.policy.of(rules.Nonfinite))
        if not off and not any(m.allow_nonfinite for m in at.scope.metrics.values()):
            return
        seen = {name for name, nan, _ in taken_over(at.policy, Level.YELLOW) if nan}
        for rule, clause in at.clauses:
            if not any(rung.level is Level.RED for rung in clause.rungs):
                continue
            for name in sorted(at.metrics(clause.condition, rule.each) - seen):
                metric = at.scope.metrics.get(name)
                if (off or (metric is not None and metric.allow_nonfinite)) and not _tests(clause.condition, name):
                    seen.add(name)
                    shown = name_text(name) if "*" not in name else name
                    yield self.found(f"nothing reports a NaN in `{shown}`, and this red rule goes quiet by it",
                                     clause.condition.span, "the guard is off",
                                     f"add `when {shown} is not finite -> orange`")  # fmt: skip


def _tests(condition: ex.Expression, name: str) -> bool:
    return any(isinstance(n, ex.Is) and getattr(n.operand, "path", None) == name for n in condition.walk())
