"""A threshold on a plain rolling reference of the same metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import SAMPLES, STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.bounds import factor_of
from vitalsdsl.lints.looked import Measured


class SwallowedByMean(Lint):
    """`x > k * mean(x, W) for n steps`: the mean contains the jump that it should catch.

    After n points at c times the old level the mean has risen to 1 + n(c - 1)/W times it, so the rule fires only where
    c > k(1 + n(c - 1)/W), that is for jumps to more than k(W - n)/(W - kn) times the old level, and for n ≥ W/k never. A
    median, and `zscore`, which measures against one, hold out until the jump fills half of the window. `usual` freezes
    while the rule is true; `baseline` does not move.
    """

    code = "V201"
    bad = "when loss > 2 * mean(loss, 100 steps) for 60 steps -> yellow"
    good = "when loss > 2 * usual(loss, 100 steps) for 60 steps -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            for node in at.within(clause.condition, ex.Comparison):
                if len(node.operands) == 2:
                    if node.operators[0] in (">", ">="):
                        yield from self._compare(node, clause, at)
                    else:
                        yield from self._score(node.operands[0], clause, at)

    def _compare(self, node: ex.Comparison, clause: rules.Clause, at: Looked) -> Iterator[Diagnostic]:
        metric = node.operands[0]
        factor, scaled = factor_of(node.operands[1], at)
        call = at.written_out(scaled)
        if isinstance(call, ex.Arithmetic) and factor == 1:
            factor, call = factor_of(call, at)
        yield from self._score(metric, clause, at)
        if not isinstance(call, ex.Call) or call.function not in ("mean", "median") or len(call.arguments) != 2:
            return
        window = at.window(call)
        if window is None or expression_text(call.arguments[0].value) != expression_text(metric):
            return
        n = _held(clause, window, at)
        width, what = window[0], expression_text(metric)
        if call.function == "median":
            if factor > 1 and 2 * n > width:
                yield self._swallowed("median", what, scaled, "half of the window is the jump", call)
            return
        room = width - factor * n
        if factor <= 1 or room <= 0:
            if factor > 1 and n < width:
                yield self._swallowed("mean", what, scaled, f"never fires: n = {n:g} of W = {width:g}", call)
            return
        needed = factor * (width - n) / room
        if needed >= 1.15 * factor:
            yield self._swallowed("mean", what, scaled, f"fires on jumps to {needed:.2g} times the level only", call)

    def _score(self, node: ex.Expression, clause: rules.Clause, at: Looked) -> Iterator[Diagnostic]:
        call = at.written_out(node)
        window = at.window(call) if isinstance(call, ex.Call) and call.function == "zscore" else None
        if window is not None and isinstance(call, ex.Call) and 2 * _held(clause, window, at) > window[0]:
            yield self._swallowed("window", expression_text(call.arguments[0].value), node,
                                  "half of the window is the jump", call)  # fmt: skip

    def _swallowed(self, word: str, what: str, place: ex.Expression, label: str, call: ex.Call) -> Diagnostic:
        width = expression_text(call.arguments[1].value)
        unit = "" if isinstance(call.arguments[1].value, ex.Length) else " steps"
        return self.found(f"the {word} of `{what}` swallows the jump that it should catch", place.span, label,
                          f"write `usual({what}, {width}{unit})`, which freezes meanwhile")  # fmt: skip


def _held(clause: rules.Clause, window: Measured, at: Looked) -> float:
    """How many of the window's points the condition has to hold for."""
    if window[1] == SAMPLES and clause.for_ is not None and clause.for_.n:
        return float(clause.for_.k)
    lasts = at.lasts(clause.for_, window[1])
    return lasts if lasts is not None else 1.0 if window[1] in (STEPS, SAMPLES) else 0.0
