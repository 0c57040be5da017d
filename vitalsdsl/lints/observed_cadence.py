"""Windows and declarations that do not go with how often runs log a metric."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.looked import RATES_APART
from vitalsdsl.ops import base
from vitalsdsl.ops.base import Takes

FEW = 5
"""Fewer points than this are no ground for a statistic."""

_SAID_ELSEWHERE = ("baseline", "usual", "noise", "zscore", "mad", "rising", "falling", "flat")
_ONE_WILL_DO = ("count", "sum", "max", "min", "fraction", "onsets")


class OtherCadence(Lint):
    """`every` in a declaration says one thing, and the runs do another.

    When a metric is stale, when it is missing, and how many points a window holds all go by what is declared.
    """

    code = "V304"
    logged = ({"val_loss": ("2 x20", 250)},)
    bad = 'metric val_loss = "val_loss" every 1000 steps\nwhen val_loss > 3 -> yellow'
    good = 'metric val_loss = "val_loss" every 250 steps\nwhen val_loss > 3 -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for metric in at.scope.metrics.values():
            declared = at.every_declared(metric.name)
            observed = at.every_observed(metric.name)
            if declared is None or observed is None or metric.every is None or not at.is_own(metric):
                continue
            if max(declared, observed) >= RATES_APART * min(declared, observed):
                steps = "step" if observed == 1 else "steps"
                yield self.found(f"`{metric.name}` is declared every {declared:g} steps, and logged every {observed:g}",
                                 metric.every.span, "not so in the runs", f"write `every {observed:g} {steps}`")  # fmt: skip


class SparseWindow(Lint):
    """A window of steps that holds fewer than five points of what it is about, as often as the runs log that.

    Metrics of a validation come every few hundred steps: a mean over 1000 steps is of three values, and its slope of noise.
    Count points instead. Where one point will do (`max`, `min`, `count`, `sum`) nothing is said.
    """

    code = "V110"
    logged = ({"val_loss": ("2 x40", 250)},)
    bad = "when slope(val_loss, 1000 steps) > 0.1 -> yellow"
    good = "when slope(val_loss, 10 samples) > 0.1 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.runs is None:
            return
        for node in at.all(ex.Call):
            function = base.registry().get(node.function)
            if function is None or not issubclass(function, base.Stateful) or node.function in _SAID_ELSEWHERE:
                continue
            given, window = at.given(node), at.window(node)
            stream = next((p.name for p in function.parameters if p.takes is Takes.STREAM), "")
            if (
                window is None
                or window[1] != STEPS
                or stream not in given
                or "W" not in given
                or node.function in _ONE_WILL_DO
            ):
                continue
            every = at.fastest(given[stream])
            points = at.points(window, given[stream])
            least = at.fastest(given[stream], shortest=True)
            never_two = least is not None and window[0] <= least  # that is another finding
            if every is not None and points is not None and points < FEW and not never_two:
                yield self.found(
                    f"`{expression_text(node)}` is over {points:g} points", given["W"].span, f"logged every {every:g} steps",
                    f"write `{10 * every:g} steps`, or count points: `10 samples`",
                )  # fmt: skip
