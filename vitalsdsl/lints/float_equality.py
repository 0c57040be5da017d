"""Equality of numbers that were computed."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.lints.base import Lint, Looked


class FloatEquality(Lint):
    """Computed numbers are hardly ever equal to the last bit.

    `== 0` of a metric itself is meant often enough (a masked loss is exactly 0.0) and is left alone, as are counters.
    """

    code = "V205"
    bad = "when mean(loss, 10 steps) == 2.5 -> yellow"
    good = "when 2.49 < mean(loss, 10 steps) < 2.51 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for expression in at.expressions:
            for node in expression.walk():
                if isinstance(node, ex.Comparison):
                    for left, symbol, right in zip(node.operands, node.operators, node.operands[1:]):
                        if symbol in ("==", "!=") and (_computed(left) or _computed(right) or _fractional(right)):
                            yield self.found("equality of computed numbers", node.span, "to the last bit?",
                                             "write a range: `a < x < b`")  # fmt: skip


def _computed(node: ex.Expression) -> bool:
    exact = ("count", "onsets", "since", "interval", "min", "max", "lowest", "highest")
    return isinstance(node, ex.Arithmetic) or (isinstance(node, ex.Call) and node.function not in exact)


def _fractional(node: ex.Expression) -> bool:
    return isinstance(node, ex.Number) and node.value != int(node.value) if isinstance(node, ex.Number) else False
