"""A baseline of too few points, or shorter than what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.scope import implicit_subject
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.short_phase import stretch_of


class ShortBaseline(Lint):
    """A baseline of a few points is a noisy number, fixed for the rest of the run.

    Take ten points or more, and at least five times the `for` that stands on it. A baseline of one step or sample is the
    first value, and is left alone.
    """

    code = "V202"
    sees_more_in_runs = True
    bad = "when grad_norm > 3*baseline(20 steps) for 20 steps -> yellow"
    good = "when grad_norm > 3*baseline(500 steps) for 20 steps -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        said: set[int] = set()
        for rule, clause in at.clauses:
            for node in at.within(clause.condition, ex.Call):
                if node.function == "baseline":
                    for finding in self._against_for(node, rule, clause, at):
                        said.add(id(node))
                        yield finding
        for node in at.all(ex.Call):
            if node.function == "baseline" and id(node) not in said:
                yield from self._few_points(node, at)

    def _against_for(self, node: ex.Call, rule: rules.Rule, clause: rules.Clause, at: Looked) -> Iterator[Diagnostic]:
        window = at.window(node)
        lasts = at.lasts(clause.for_, window[1]) if window is not None else None
        if window is not None and lasts is not None and 1 < window[0] < 5 * lasts:
            unit = "s" if window[1] == "time" else window[1]
            yield self.found(f"this baseline is less than five times the `for` of {lasts:g} {unit}",
                             at.given(node)["N"].span, "short", _help(window[0], lasts, unit, rule, at))  # fmt: skip

    def _few_points(self, node: ex.Call, at: Looked) -> Iterator[Diagnostic]:
        given = at.given(node)
        window = at.window(node)
        points = at.points(window, given.get("x") or self._subject(node, at)) if window is not None else None
        if window is not None and points is not None and points < 10 and window[0] > 1:
            yield self.found(f"this baseline is of {points:g} points at most", given["N"].span, "few points",
                             "ten or more: `10 samples`")  # fmt: skip

    def _subject(self, node: ex.Call, at: Looked) -> ex.Expression:
        """What `baseline(500)` is about: what stands on the other side of its comparison."""
        for comparison in at.all(ex.Comparison):
            for operand in comparison.operands:
                if any(inner is node for inner in operand.walk()):
                    return implicit_subject(comparison, operand, at.scope) or node
        return node


def _help(window: float, lasts: float, unit: str, rule: rules.Rule, at: Looked) -> str:
    """What to write instead: a longer baseline, unless the phase of the rule is over before it would have been lived."""
    stretch, longer = stretch_of(rule, at) if unit == STEPS else None, 5 * lasts
    if stretch is None or max(longer, stretch[0] + 1) + lasts - 1 <= stretch[1]:
        return f"write `{longer:g} {unit}` or more"
    begin, end = stretch
    shorter = max(1, int(min(window / 5, end + 1 - max(window, begin + 1))))
    return (
        f"shorten the `for` to `{shorter} {unit}`: the phase is over at step {end:g}, too early for a longer baseline"
    )
