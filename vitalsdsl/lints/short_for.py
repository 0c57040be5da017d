"""A `for` shorter than the cadence of its metric."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import STEPS
from vitalsdsl.lints.base import Lint, Looked


class ShortFor(Lint):
    """A metric that is logged every 500 steps holds `for 20 steps` only at its second point, 500 steps later.

    The condition must be true at a later point, too, so the rule waits for two points whatever the number says. Say it in
    samples, or ask for as many steps as are meant.
    """

    code = "V101"
    sees_more_in_runs = True
    bad = 'metric val = "val" every 500 steps\nwhen val > 3 for 20 steps -> yellow'
    good = 'metric val = "val" every 500 steps\nwhen val > 3 for 2 samples -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule, clause in at.clauses:
            lasts = at.lasts(clause.for_, STEPS)
            if clause.for_ is None or lasts is None or len(clause.for_.lengths) > 1:
                continue
            every = at.fastest(clause.on or clause.condition, rule.each)
            if every is not None and 1 < lasts <= every:
                yield self.found(
                    f"`for {lasts:g} steps` is shorter than the time between two points", clause.for_.span,
                    f"logged every {every:g} steps", "that means two points: write `for 2 samples`",
                )  # fmt: skip
