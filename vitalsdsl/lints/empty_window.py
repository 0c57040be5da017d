"""A window that holds fewer than two points."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.types import STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes

_ONE_WILL_DO = ("count", "sum", "max", "min", "fraction")


class EmptyWindow(Lint):
    """A window of 1000 steps over a metric that comes every 2000 never holds two points.

    Such a rule reads well and can never say what it should: its mean is one point, its slope is unknown for ever. What
    counts is the declared `every` of the quickest metric in the window, or the shortest distance of its points in the runs
    that the policy is held against; where neither is known nothing is said.
    """

    code = "V104"
    sees_more_in_runs = True
    severity = Severity.ERROR
    bad = 'metric val = "val" every 2000 steps\nwhen slope(val, 1000 steps) > 0.1 -> yellow'
    good = 'metric val = "val" every 2000 steps\nwhen slope(val, 20000 steps) > 0.1 -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Call):
            function = base.registry().get(node.function)
            if function is None or not issubclass(function, base.Stateful) or node.function in _ONE_WILL_DO:
                continue
            given = at.given(node)
            window, extent = given.get("W"), at.extent(given.get("W"))
            stream = next((p.name for p in function.parameters if p.takes is Takes.STREAM), "")
            if stream not in given or window is None or extent is None or extent[1] != STEPS:
                continue
            every = at.fastest(given[stream], shortest=True)
            if every is not None and extent[0] <= every:
                yield self.found(
                    "this window never holds two points", window.span, f"logged every {every:g} steps",
                    f"write `{10 * every:g} steps`, or count points: `10 samples`",
                )  # fmt: skip
