"""A rule that needs longer than its phase lasts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.bounds import bounds
from vitalsdsl.lints.looked import conjuncts
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes


class ShortPhase(Lint):
    """A window has to be lived through before it is known, and a phase ends.

    In a phase of the first 200 steps a baseline of 500 is never known, and `for 300 steps` never holds: the rule can never
    fire. Windows run on through all phases, but before a phase at the start there is nothing.
    """

    code = "V106"
    bad = "phase startup = step < 200\nrule r in phase startup { when loss > 3 * baseline(loss, 500 steps) -> yellow }"
    good = (
        "phase startup = step < 1000\nrule r in phase startup { when loss > 3 * baseline(loss, 500 steps) -> yellow }"
    )

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        warm_up = _WarmUp(at)
        for rule in at.enabled():
            stretch = stretch_of(rule, at)
            if stretch is not None:
                yield from self._clauses(rule, *stretch, warm_up)

    def _clauses(self, rule: rules.Rule, begin: float, end: float, warm_up: _WarmUp) -> Iterator[Diagnostic]:
        for clause in rule.body.clauses:
            lasts = warm_up.at.lasts(clause.for_, STEPS) or 1.0
            warm = warm_up.of(clause.condition)
            if max(warm, begin + 1) + lasts - 1 > end:
                yield self.found(
                    "this can never fire: its phase is over before", clause.condition.span,
                    f"over at step {end:g}", f"it is known after {warm:g} steps, and has to hold for {lasts:g}: shorten "
                    "these, or make the phase longer",
                )  # fmt: skip


def stretch_of(rule: rules.Rule, at: Looked) -> tuple[float, float] | None:
    """The steps before which the phases of a rule begin and end, where they are nothing but bounds of `step`."""
    stretches = [_stretch(at.scope.phases[p.path], at) for p in rule.phases]
    known = [s for s in stretches if s is not None]
    if not known or len(known) < len(stretches):
        return None
    return min(b for b, _ in known), max(e for _, e in known)


def _stretch(phase: rules.Phase, at: Looked) -> tuple[float, float] | None:
    """The steps before which a phase begins and ends, where it is nothing but bounds of `step`."""
    begin, end = 0.0, None
    for part in conjuncts(phase.condition):
        for bound in bounds(part, at) if isinstance(part, ex.Comparison) else ():
            of_step = isinstance(bound.subject, ex.Name) and bound.subject.path == "step" and bound.scaled is None
            if of_step and bound.is_below:
                end = bound.value + (bound.symbol == "<=")
            elif of_step and bound.is_above:
                begin = bound.value
    return (begin, end) if end is not None else None


class _WarmUp:
    """How many steps have to be lived, at least, before an expression can be known; each let is gone through once."""

    def __init__(self, at: Looked) -> None:
        self.at = at
        self._lets: dict[str, float] = {}

    def of(self, node: ex.Node) -> float:
        if isinstance(node, ex.Or):
            return min(self.of(part) for part in node.operands)
        if isinstance(node, ex.Name) and node.path in self.at.scope.lets:
            if node.path not in self._lets:
                self._lets[node.path] = self.of(self.at.scope.lets[node.path].expression)
            return self._lets[node.path]
        if isinstance(node, ex.Before):
            return self.of(node.operand) + self._steps(node.shift)
        if isinstance(node, ex.Call):
            return self._of_call(node)
        if isinstance(node, (ex.Held, ex.Then, ex.AtLeast, ex.Not)):
            return 0.0
        return max((self.of(child) for child in node.children()), default=0.0)

    def _of_call(self, node: ex.Call) -> float:
        inner = max((self.of(a.value) for a in node.arguments if a.keyword is None), default=0.0)
        window, function = self.at.window(node), base.registry().get(node.function)
        if node.function == "surely" or function is None or window is None or window[1] != STEPS:
            return inner if node.function != "surely" else 0.0
        if not any(p.takes in (Takes.STREAM, Takes.CONDITION) for p in function.positional()):
            return inner
        return inner + window[0] + self._steps(self.at.given(node).get("from"))

    def _steps(self, node: ex.Node | None) -> float:
        extent = self.at.extent(node)
        return extent[0] if extent is not None and extent[1] == STEPS else 0.0
