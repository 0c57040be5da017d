"""A reference that is frozen by a condition which is true in healthy running."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked


class FreezingInHealth(Lint):
    """`event recovered = loss < 1.05 * usual(loss, 500 steps)` is true nearly always, so its `usual` never learns.

    A reference is frozen by the condition it stands in unless it says otherwise. One that is true in health must name
    the trouble: `unless: spike`.
    """

    code = "V213"
    bad = "event recovered = loss < 1.05 * usual(loss, 500 steps)\nwhen recovered and step > 5 -> yellow"
    good = (
        "event spike = loss > 1.5 * usual(loss, 500 steps)\n"
        "event recovered = loss < 1.05 * usual(loss, 500 steps, unless: spike)\n"
        "rule stuck { when spike then no recovered within 500 steps -> orange }"
    )

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        conditions = [s.condition for s in at.policy.of(rules.Event)] + [c.condition for _, c in at.clauses]
        for condition in conditions:
            if not (isinstance(condition, ex.Comparison) and len(condition.operands) == 2):
                continue
            left, right = condition.operands
            factor, call = 1.0, right
            if isinstance(right, ex.Arithmetic) and right.operator == "*":
                value = at.value(right.left)
                factor, call = (value, right.right) if value is not None else (1.0, right)
            if not isinstance(call, ex.Call) or call.function != "usual" or not call.arguments:
                continue
            if any(a.keyword == "unless" for a in call.arguments):
                continue
            same = expression_text(call.arguments[0].value) == expression_text(left)
            if same and condition.operators[0] in ("<", "<=") and factor >= 1:
                yield self.found("this is true in healthy running, so its reference never learns", call.span,
                                 "frozen by health", "name the trouble: `unless: EVENT`")  # fmt: skip
