"""A division by something that can be zero."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked

_CAN_BE_ZERO = ("delta", "slope", "std", "var", "mad", "noise", "count", "onsets", "resid_std", "growth", "fraction")


class DivisionUnguarded(Lint):
    """A division by zero is unknown, and an unknown fires nothing: the rule goes quiet where it matters.

    Differences, counts and scatters are zero in quite ordinary runs (equal points, a frozen sensor). Put a floor under
    the divisor.
    """

    code = "V203"
    bad = "when loss / std(loss, 50 steps) > 100 -> yellow"
    good = "when loss / greatest(std(loss, 50 steps), 1e-6) > 100 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Arithmetic):
            for operator, divisor in zip(node.operators, node.operands[1:]):
                zero = at.value(divisor) == 0
                if operator == "/" and (zero or (isinstance(divisor, ex.Call) and divisor.function in _CAN_BE_ZERO)):
                    text = expression_text(divisor)
                    yield self.found(f"`{text}` can be zero, and then this is unknown", divisor.span, "no floor",
                                     f"write `greatest({text}, 1e-6)`")  # fmt: skip
