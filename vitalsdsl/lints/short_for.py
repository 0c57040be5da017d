"""A `for` shorter than the cadence of its metric."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.diagnostic import Diagnostic
from vitalsdsl.expressions import Name
from vitalsdsl.guards import named
from vitalsdsl.lints.base import Lint, Looked


class ShortFor(Lint):
    """A metric that is logged every 500 steps holds `for 20 steps` only at its second point, 500 steps later.

    The condition must be true at a later point, too, so the rule waits for two points whatever the number says. Say it in
    samples, or ask for as many steps as are meant.
    """

    code = "V101"
    bad = 'metric val = "val" every 500 steps\nwhen val > 3 for 20 steps -> yellow'
    good = 'metric val = "val" every 500 steps\nwhen val > 3 for 2 samples -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            paced = [clause.on] if clause.on is not None else list(named(clause.condition))
            cadences = [at.every(n.path) for n in paced if isinstance(n, Name)]
            known = [c for c in cadences if c is not None]
            if not known or len(known) < len(cadences):
                continue
            for length in clause.for_.lengths if clause.for_ is not None else ():
                extent = at.extent(length)
                if extent is not None and extent[1] == "steps" and 1 < extent[0] <= min(known):
                    yield self.found(
                        f"`for {extent[0]:g} steps` is shorter than the time between two points", length.span,
                        f"logged every {min(known):g} steps", "that means two points: write `for 2 samples`",
                    )  # fmt: skip
