"""A clear condition that can hold together with what fires."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked


class OverlappingClear(Lint):
    """`when x > 3` with `clear when x < 5`: between 3 and 5 both hold, and the rule can neither stay nor go.

    The clear condition belongs below the threshold: that is what hysteresis is for.
    """

    code = "V403"
    severity = Severity.ERROR
    bad = "rule r { when loss > 3 -> yellow clear when loss < 5 for 10 steps }"
    good = "rule r { when loss > 3 -> yellow clear when loss < 2.5 for 10 steps }"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule, clause in at.clauses:
            clear = rule.body.clear.condition if rule.body.clear is not None else None
            fire = clause.condition
            if not (isinstance(clear, ex.Comparison) and isinstance(fire, ex.Comparison)):
                continue
            if len(clear.operands) != 2 or len(fire.operands) != 2:
                continue
            if expression_text(clear.operands[0]) != expression_text(fire.operands[0]):
                continue
            up, down = _threshold(fire.operands[1], at), _threshold(clear.operands[1], at)
            if up is None or down is None or up[1] != down[1]:
                continue
            above = fire.operators[0] in (">", ">=") and clear.operators[0] in ("<", "<=") and down[0] > up[0]
            below = fire.operators[0] in ("<", "<=") and clear.operators[0] in (">", ">=") and down[0] < up[0]
            same = {fire.operators[0], clear.operators[0]} <= {">", ">="} or {
                fire.operators[0],
                clear.operators[0],
            } <= {"<", "<="}
            if above or below or same:
                yield self.found("the clear condition holds while the rule fires", clear.span, "they overlap",
                                 f"clear on the other side of `{expression_text(fire)}`")  # fmt: skip


def _threshold(node: ex.Expression, at: Looked) -> tuple[float, str] | None:
    """A constant, or a constant times something: the factor, and what it scales."""
    if (value := at.value(node)) is not None:
        return value, ""
    if isinstance(node, ex.Arithmetic) and node.operator == "*" and (value := at.value(node.left)) is not None:
        return value, expression_text(node.right)
    return None
