"""A threshold on a plain rolling mean of the same metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl import expressions as ex
from vitalsdsl import rules
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked


class SwallowedByMean(Lint):
    """`x > k * mean(x, W) for n steps`: the mean contains the jump that it should catch.

    After n points at c times the old level the mean has risen by n(c - 1)/W, so the rule fires only where
    c > k(1 + n(c - 1)/W), and for long spans never. `usual` freezes while the rule is true; `baseline` does not move.
    """

    code = "V201"
    bad = "when loss > 2 * mean(loss, 100 steps) for 60 steps -> orange"
    good = "when loss > 2 * usual(loss, 100 steps) for 60 steps -> orange"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            for node in clause.condition.walk():
                if isinstance(node, ex.Comparison) and len(node.operands) == 2 and node.operators[0] in (">", ">="):
                    yield from self._compare(node, clause, at)

    def _compare(self, node: ex.Comparison, clause: rules.Clause, at: Looked) -> Iterator[Diagnostic]:
        metric, other = node.operands
        factor, call = _scaled(other, at)
        if not isinstance(call, ex.Call) or call.function != "mean" or len(call.arguments) != 2 or clause.for_ is None:
            return
        if expression_text(call.arguments[0].value) != expression_text(metric):
            return
        window = at.extent(call.arguments[1].value)
        lasts = at.extent(clause.for_.lengths[0]) if clause.for_.lengths else None
        if window is None or lasts is None or window[1] != lasts[1] or factor is None:
            return
        n, width = lasts[0], window[0]
        room = width - factor * n
        text = (
            "it can never fire: the mean rises as fast"
            if room <= 0
            else (f"it fires only on jumps to over {factor * (width - n) / room:.2f} times the old level")
        )
        if room > 0 and factor * (width - n) / room < 1.15 * factor:
            return
        what = expression_text(metric)
        yield self.found(f"the mean of `{what}` swallows the jump that it should catch", call.span, text,
                         f"write `usual({what}, {expression_text(call.arguments[1].value)})`")  # fmt: skip


def _scaled(node: ex.Expression, at: Looked) -> tuple[float | None, ex.Expression]:
    if isinstance(node, ex.Arithmetic) and node.operator == "*":
        if (value := at.value(node.left)) is not None:
            return value, node.right
        if (value := at.value(node.right)) is not None:
            return value, node.left
    return 1.0, node
