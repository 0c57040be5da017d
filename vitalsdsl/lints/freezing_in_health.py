"""A reference that is frozen by a condition which is true in healthy running."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.arguments import worked_out
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.looked import alternatives

_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_HEALTHY = {"usual": 1.0, "noise": 0.01}
_PLAIN: dict[str, Callable[[list[float]], float]] = {"abs": lambda v: abs(v[0]), "greatest": max, "least": min}


class FreezingInHealth(Lint):
    """`event recovered = loss < 1.05 * usual(loss, 500 steps)` is true nearly always, so its `usual` never learns.

    A reference is frozen by the condition it stands in unless it says otherwise. One that holds where x is just what it
    usually is must name the trouble: `unless: spike`.
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
            if not any(n.function == "usual" for n in at.within(condition, ex.Call)):
                continue
            for part in alternatives(condition):
                inner = part.operand if isinstance(part, ex.Not) else part
                if not isinstance(inner, ex.Comparison):
                    continue
                healthy = _in_health(inner, at)
                if healthy is not None and healthy is not isinstance(part, ex.Not):
                    yield from self._references(inner, at)

    def _references(self, node: ex.Comparison, at: Looked) -> Iterator[Diagnostic]:
        for call in node.walk():
            if isinstance(call, ex.Call) and call.function in _HEALTHY and "unless" not in at.given(call):
                yield self.found("this is true in healthy running, so its reference never learns", call.span,
                                 "frozen by health", "name the trouble: `unless: EVENT`")  # fmt: skip
                return


def _in_health(node: ex.Comparison, at: Looked) -> bool | None:
    """Whether a comparison holds where x is what it usually is; None where that cannot be seen."""
    usual = [n for n in node.walk() if isinstance(n, ex.Call) and n.function == "usual" and n.arguments]
    subjects = {expression_text(n.arguments[0].value) for n in usual}
    if len(subjects) != 1 or not set(node.operators) <= set(_COMPARE):
        return None
    subject = subjects.pop()
    values = [_healthy(operand, subject, at) for operand in node.operands]
    outcomes: list[bool] = []
    for left, symbol, right in zip(values, node.operators, values[1:]):
        if left is None or right is None or left == right:
            return None
        outcomes.append(_COMPARE[symbol](left, right))
    return all(outcomes)


def _healthy(node: ex.Expression, subject: str, at: Looked) -> float | None:
    """What an expression comes to where the subject is 1, as usual, and scatters by a hundredth."""
    value = at.value(node)
    if value is not None or expression_text(node) == subject:
        return value if value is not None else _HEALTHY["usual"]
    if isinstance(node, ex.Call):
        if node.function in _HEALTHY:
            return _HEALTHY[node.function]
        inner = [v for a in node.arguments if (v := _healthy(a.value, subject, at)) is not None]
        known = node.function in _PLAIN and len(inner) == len(node.arguments)
        return _PLAIN[node.function](inner) if known else None
    if not isinstance(node, ex.Arithmetic):
        return None
    return worked_out(node, [_healthy(operand, subject, at) for operand in node.operands])
