"""A baseline that is shorter than what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.lints.base import Lint, Looked


class ShortBaseline(Lint):
    """A baseline of a few points is a noisy number, fixed for the rest of the run.

    Ten points or more, and at least five times the `for` that stands on it.
    """

    code = "V202"
    bad = "when grad_norm > 3*baseline(20 steps) for 20 steps -> yellow"
    good = "when grad_norm > 3*baseline(500 steps) for 20 steps -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            lasts = at.extent(clause.for_.lengths[0]) if clause.for_ is not None and clause.for_.lengths else None
            for node in clause.condition.walk():
                if not isinstance(node, ex.Call) or node.function != "baseline" or not node.arguments:
                    continue
                given = [a for a in node.arguments if a.keyword is None][-1]
                extent = at.extent(given.value)
                if extent is None:
                    continue
                if lasts is not None and lasts[1] == extent[1] and extent[0] < 5 * lasts[0] and extent[0] > 1:
                    yield self.found(f"this baseline is less than five times the `for` of {lasts[0]:g} {lasts[1]}", given.span,
                                     "short", f"write `{5 * lasts[0]:g} {lasts[1]}` or more")  # fmt: skip
