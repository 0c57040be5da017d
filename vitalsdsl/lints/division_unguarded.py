"""A division by something that can be zero."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked

_CAN_BE_ZERO = ("delta", "slope", "std", "var", "mad", "noise", "count", "onsets", "resid_std", "growth", "fraction")


class DivisionUnguarded(Lint):
    """A division by zero is unknown, and an unknown fires nothing: the rule goes quiet where it matters.

    Differences, counts and scatters are zero in quite ordinary runs (equal points, a frozen sensor). Put a floor under
    the divisor.
    """

    code = "V203"
    severity = Severity.WARNING
    bad = "when loss / std(loss, 50 steps) > 100 -> yellow"
    good = "when loss / greatest(std(loss, 50 steps), 1e-6) > 100 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for expression in at.expressions:
            for node in expression.walk():
                if isinstance(node, ex.Arithmetic) and node.operator == "/":
                    divisor = node.right
                    zero = isinstance(divisor, ex.Number) and divisor.value == 0
                    if zero or isinstance(divisor, ex.Call) and divisor.function in _CAN_BE_ZERO:
                        text = expression_text(divisor)
                        yield self.found(f"`{text}` can be zero, and then this is unknown", divisor.span, "no floor",
                                         f"write `greatest({text}, 1e-6)`")  # fmt: skip
