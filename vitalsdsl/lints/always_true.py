"""A comparison that is always true or always false."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.bounds import Bound, bounds
from vitalsdsl.lints.looked import alternatives, conjuncts

_NEVER_NEGATIVE = frozenset("std var mad count onsets since interval abs noise sqrt exp resid_std cv".split())
_RANGES = {"fraction": (0.0, 1.0), "corr": (-1.0, 1.0)}
_COUNTERS = frozenset(("step", "elapsed", "epoch", "tokens", "progress"))


class AlwaysTrue(Lint):
    """Range knowledge: a share lies in 0 .. 1, counts and scatters are never negative, two bounds must leave room.

    A rule that is always true fires at its first step and never clears; one that is always false is a rule that somebody
    believes in. Bounds from params count as they are set now.
    """

    code = "V204"
    severity = Severity.ERROR
    bad = "when fraction(loss > 3, 100 steps) > 120% -> yellow"
    good = "when fraction(loss > 3, 100 steps) > 20% -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for comparison in at.all(ex.Comparison):
            yield from self._fixed(comparison)
            for bound in bounds(comparison, at):
                yield from self._by_range(bound)
        yield from self._contradictions(at)
        for either in at.all(ex.Or):
            yield from self._covers(either, at)

    def _fixed(self, node: ex.Comparison) -> Iterator[Diagnostic]:
        for left, symbol, right in zip(node.operands, node.operators, node.operands[1:]):
            if _in_figures(left) and _in_figures(right):
                yield self.found("both sides are fixed numbers", left.span.to(right.span), "always the same",
                                 "name the metric that is compared")  # fmt: skip
            elif type(left) is type(right) and expression_text(left) == expression_text(right):
                yield self._with_itself(left, symbol, right)

    def _with_itself(self, left: ex.Expression, symbol: str, right: ex.Expression) -> Diagnostic:
        """`loss != loss`, elsewhere the test for NaN: here a comparison with NaN is unknown."""
        text, holds = expression_text(left), symbol in ("==", ">=", "<=")
        help_ = "name what it is compared with, such as its own past: `x before 100 steps`"
        if symbol in ("==", "!="):
            metric = text if isinstance(left, (ex.Name, ex.Family)) else "loss"
            help_ = f"to ask whether a metric is NaN, write `{metric} is {'not ' if symbol == '==' else ''}nan`"
        return self.found(f"`{text}` is compared with itself", left.span.to(right.span),
                          f"{'always' if holds else 'never'} true", help_)  # fmt: skip

    def _by_range(self, bound: Bound) -> Iterator[Diagnostic]:
        subject = bound.subject
        low, high, may_hold = -math.inf, math.inf, False
        if isinstance(subject, ex.Call):
            low, high = _RANGES.get(subject.function, (0.0 if subject.function in _NEVER_NEGATIVE else low, high))
        elif isinstance(subject, ex.Name) and subject.path in _COUNTERS and not subject.quoted:
            low, may_hold = 0.0, True  # `step >= 0` is a way to say "all of the run"
        outcome = None if bound.scaled is not None or low == -math.inf else _outcome(bound, low, high)
        if outcome is None or (outcome and may_hold):
            return
        text = expression_text(subject)
        lies = f"is never below {low:g}" if math.isinf(high) else f"lies between {low:g} and {high:g}"
        yield self.found(f"`{text}` {lies}", bound.node.span, f"always {str(outcome).lower()}",
                         "move the bound into that range")  # fmt: skip

    def _contradictions(self, at: Looked) -> Iterator[Diagnostic]:
        """`x > 5 and x < 3`, also as `5 < x < 3`."""
        inner = {id(side) for node in at.all(ex.And) for side in node.operands}
        whole: list[ex.Expression] = [*at.all(ex.And), *(n for n in at.all(ex.Comparison) if len(n.operands) > 2)]
        for node in whole:
            if id(node) in inner:
                continue
            held: dict[tuple[str, str], list[Bound]] = {}
            parts = [part for part in conjuncts(node) if isinstance(part, ex.Comparison)]
            for bound in (b for part in parts for b in bounds(part, at)):
                held.setdefault(bound.key, []).append(bound)
            for (text, of), both in held.items():
                above = max((b for b in both if b.is_above), key=_value, default=None)
                below = min((b for b in both if b.is_below), key=_value, default=None)
                if above is not None and below is not None and _leave_no_room(above, below):
                    times = f" times `{of}`" if of else ""
                    yield self.found(f"`{text}` cannot be above {above.value:g} and below {below.value:g}{times}",
                                     node.span, "always false", "was `or` meant?")  # fmt: skip

    def _covers(self, node: ex.Or, at: Looked) -> Iterator[Diagnostic]:
        """`x > 3 or x < 5`: one of the two always holds."""
        sides = [p for p in alternatives(node) if isinstance(p, ex.Comparison) and len(p.operands) == 2]
        held: dict[tuple[str, str], list[Bound]] = {}
        for bound in (b for side in sides for b in bounds(side, at)):
            held.setdefault(bound.key, []).append(bound)
        for (text, _), both in held.items():
            above = min((b for b in both if b.is_above), key=_value, default=None)
            below = max((b for b in both if b.is_below), key=_value, default=None)
            if above is not None and below is not None and above.value < below.value:
                yield self.found(f"`{text}` is always above {above.value:g} or below {below.value:g}",
                                 node.span, "always true", "was `and` meant?")  # fmt: skip
                return


def _in_figures(node: ex.Expression) -> bool:
    """Whether it is written in figures alone: a param may be there to switch a rule on."""
    if isinstance(node, ex.Arithmetic):
        return all(_in_figures(operand) for operand in node.operands)
    return isinstance(node, ex.Number) or (isinstance(node, ex.Negative) and _in_figures(node.operand))


def _value(bound: Bound) -> float:
    return bound.value


def _leave_no_room(above: Bound, below: Bound) -> bool:
    if above.value != below.value:
        return above.value > below.value
    return above.symbol == ">" or below.symbol == "<"


def _outcome(bound: Bound, low: float, high: float) -> bool | None:
    """What a comparison always comes to where its subject lies in low .. high; None where that depends."""
    value = bound.value
    if bound.symbol in ("==", "!="):
        return bound.symbol == "!=" if not low <= value <= high else None
    true = {">": value < low, ">=": value <= low, "<": value > high, "<=": value >= high}
    false = {">": value >= high, ">=": value > high, "<": value <= low, "<=": value < low}
    return True if true[bound.symbol] else False if false[bound.symbol] else None
