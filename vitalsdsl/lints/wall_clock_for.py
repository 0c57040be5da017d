"""A `for` in wall time on a metric that comes by steps."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import TIME
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked


class WallClockFor(Lint):
    """`loss > 3 for 10 min` goes by the clock, which runs on while the run evaluates, saves or waits.

    A checkpoint of ten minutes between two points is enough to fire. For a metric that is logged by steps count points as
    well.
    """

    code = "V108"
    sees_more_in_runs = True
    bad = 'metric loss = "loss" every 1 steps\nwhen loss > 3 for 10 min -> yellow'
    good = 'metric loss = "loss" every 1 steps\nwhen loss > 3 for 10 min and 20 samples -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule, clause in at.clauses:
            span = clause.for_
            if span is None or len(span.lengths) != 1 or at.lasts(span, TIME) is None:
                continue
            if at.fastest(clause.on or clause.condition, rule.each) is not None:
                text = expression_text(span)
                yield self.found("the clock runs on while the run saves or evaluates", span.span, "wall time",
                                 f"write `for {text} and 20 samples`")  # fmt: skip
