"""A comparison that is always true or always false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked

_NEVER_NEGATIVE = ("std", "var", "mad", "count", "onsets", "since", "interval", "abs", "noise", "sqrt", "resid_std")
_SHARES = ("fraction",)


class AlwaysTrue(Lint):
    """Range knowledge: a share lies in 0 .. 1, counts and scatters are never negative, bounds must leave room.

    A rule that is always true fires at its first step and never clears; one that is always false is a rule that somebody
    believes in.
    """

    code = "V204"
    severity = Severity.ERROR
    bad = "when fraction(loss > 3, 100 steps) > 120% -> yellow"
    good = "when fraction(loss > 3, 100 steps) > 20% -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for expression in at.expressions:
            for node in expression.walk():
                if isinstance(node, ex.Comparison):
                    for left, symbol, right in zip(node.operands, node.operators, node.operands[1:]):
                        yield from self._pair(left, symbol, right, node, at)
                    yield from self._chain(node, at)
                elif isinstance(node, ex.And):
                    yield from self._contradiction(node, at)

    def _pair(
        self, left: ex.Expression, symbol: str, right: ex.Expression, node: ex.Comparison, at: Looked
    ) -> Iterator[Diagnostic]:
        a, b = at.value(left), at.value(right)
        if a is not None and b is not None:
            yield self.found("both sides are fixed numbers", node.span, "always the same")
        if isinstance(left, ex.Call) and b is not None:
            yield from self._bounded(left, symbol, b, node)

    def _bounded(self, call: ex.Call, symbol: str, bound: float, node: ex.Comparison) -> Iterator[Diagnostic]:
        text = expression_text(call)
        if call.function in _SHARES and (bound > 1 and symbol in (">", ">=") or bound >= 1 and symbol == ">"):
            yield self.found(f"`{text}` is a share: it never exceeds 1", node.span, "always false")
        elif call.function in _SHARES and bound > 1 and symbol in ("<", "<="):
            yield self.found(f"`{text}` is a share: it never exceeds 1", node.span, "always true")
        elif call.function in (*_NEVER_NEGATIVE, *_SHARES):
            if symbol == ">=" and bound <= 0 or symbol == ">" and bound < 0:
                yield self.found(f"`{text}` is never negative", node.span, "always true")
            elif symbol == "<" and bound <= 0 or symbol == "<=" and bound < 0:
                yield self.found(f"`{text}` is never negative", node.span, "always false")

    def _chain(self, node: ex.Comparison, at: Looked) -> Iterator[Diagnostic]:
        if len(node.operands) == 3 and set(node.operators) <= {"<", "<="}:
            low, high = at.value(node.operands[0]), at.value(node.operands[2])
            if low is not None and high is not None and low >= high:
                yield self.found(
                    "nothing lies between these bounds", node.span, "always false", "the smaller number first"
                )

    def _contradiction(self, node: ex.And, at: Looked) -> Iterator[Diagnostic]:
        """`x > 5 and x < 3`."""
        sides = [s for s in (node.left, node.right) if isinstance(s, ex.Comparison) and len(s.operands) == 2]
        if len(sides) != 2 or expression_text(sides[0].operands[0]) != expression_text(sides[1].operands[0]):
            return
        above = [v for s in sides if s.operators[0] in (">", ">=") and (v := at.value(s.operands[1])) is not None]
        below = [v for s in sides if s.operators[0] in ("<", "<=") and (v := at.value(s.operands[1])) is not None]
        if above and below and above[0] >= below[0]:
            yield self.found("these two bounds leave no room", node.span, "always false", "was `or` meant?")
