"""A sum or count over few points."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked


class SparseSum(Lint):
    """A metric logged every 200 steps has now two, now three points in a window of 500.

    A sum or a count then goes up and down by a third though nothing happens. Take a multiple of the cadence, or count in
    samples.
    """

    code = "V210"
    sees_more_in_runs = True
    bad = 'metric skipped = "skipped" every 200 steps\nwhen sum(skipped, 500 steps) > 5 -> yellow'
    good = 'metric skipped = "skipped" every 200 steps\nwhen sum(skipped, 600 steps) > 5 -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Call):
            window = at.window(node) if node.function in ("sum", "count") else None
            if window is None or window[1] != STEPS:
                continue
            given = at.given(node)
            every = at.fastest(given["x"])
            least, rest = divmod(window[0], every) if every is not None else (0.0, 0.0)
            if rest and 1 <= least < 5 and every is not None:
                yield self.found(
                    f"`{expression_text(node)}` is now of {least:g} points, now of {least + 1:g}", given["W"].span,
                    f"logged every {every:g} steps", f"write `{(least + 1) * every:g} steps`, or count in samples",
                )  # fmt: skip
