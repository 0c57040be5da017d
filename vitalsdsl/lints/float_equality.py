"""Equality of numbers that were computed."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.lints.base import Lint, Looked

_EXACT = frozenset("count onsets since interval min max lowest highest abs".split())


class FloatEquality(Lint):
    """Computed numbers are hardly ever equal to the last bit.

    Equality with a whole number is left alone where it can be meant: a masked loss is exactly 0, the scatter of a frozen
    sensor is exactly 0, a share can be exactly 1; and counts are whole.
    """

    code = "V205"
    bad = "when mean(loss, 10 steps) == 2.5 -> yellow"
    good = "when 2.49 < mean(loss, 10 steps) < 2.51 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Comparison):
            for left, symbol, right in zip(node.operands, node.operators, node.operands[1:]):
                if symbol in ("==", "!=") and self._is_fragile(left, right, at):
                    yield self.found("equality of computed numbers", left.span.to(right.span), "to the last bit?",
                                     "write a range: `a < x < b`")  # fmt: skip

    def _is_fragile(self, left: ex.Expression, right: ex.Expression, at: Looked) -> bool:
        fixed = [v for v in (at.value(left), at.value(right)) if v is not None]
        if fixed:
            return fixed[0] != int(fixed[0])
        return _is_computed(left) or _is_computed(right)


def _is_computed(node: ex.Expression) -> bool:
    return isinstance(node, ex.Arithmetic) or (isinstance(node, ex.Call) and node.function not in _EXACT)
