"""A window that holds fewer than two points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.guards import named
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.ops import base
from vitalsdsl.scope import arguments_by_name


class EmptyWindow(Lint):
    """A window of 1000 steps over a metric that comes every 2000 never holds two points.

    Such a rule reads well and can never say what it should: its mean is one point, its slope is unknown for ever.
    """

    code = "V104"
    severity = Severity.ERROR
    bad = 'metric val = "val" every 2000 steps\nwhen slope(val, 1000 steps) > 0.1 -> yellow'
    good = 'metric val = "val" every 2000 steps\nwhen slope(val, 6000 steps) > 0.1 -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for expression in at.expressions:
            for node in expression.walk():
                if isinstance(node, ex.Call):
                    yield from self._call(node, at)

    def _call(self, node: ex.Call, at: Looked) -> Iterator[Diagnostic]:
        function = base.registry().get(node.function)
        if function is None or not issubclass(function, base.Stateful):
            return
        given = arguments_by_name(node, function)
        stream = next(
            (given[p.name] for p in function.parameters if p.takes is base.Takes.STREAM and p.name in given), None
        )
        window = next((given[p.name] for p in function.parameters if p.name == "W" and p.name in given), None)
        extent = at.extent(window)
        if stream is None or extent is None or extent[1] != "steps" or node.function in ("count", "sum", "max", "min"):
            return
        cadences = [at.every(n.path) for n in named(stream) if isinstance(n, ex.Name)]
        if cadences and None not in cadences:
            slowest = min(c for c in cadences if c is not None)
            if extent[0] < slowest + 1 and window is not None:
                yield self.found(
                    "this window never holds two points", window.span, f"logged every {slowest:g} steps",
                    f"write `{4 * slowest:g} steps`, or count points: `5 samples`",
                )  # fmt: skip
