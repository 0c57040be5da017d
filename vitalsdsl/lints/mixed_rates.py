"""Metrics that come at different rates in one condition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.ground.types import SAMPLES, STEPS
from vitalsdsl.language import expressions as ex
from vitalsdsl.language import rules
from vitalsdsl.language.formatter import expression_text, name_text
from vitalsdsl.lints.base import Lint, Looked


class SamplesOfWhat(Lint):
    """`for 2 samples` counts evaluations, and a condition is evaluated whenever one of its metrics has a point.

    With a validation loss beside a training loss two samples are two training steps, and one bad evaluation fires. Say
    with `on` whose points are counted.
    """

    code = "V102"
    sees_more_in_runs = True
    bad = "when val_loss > 1.05 * lowest(val_loss) and loss < 2 for 2 samples -> yellow"
    good = "when val_loss > 1.05 * lowest(val_loss) and loss < 2 for 2 samples on val_loss -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule, clause in at.clauses:
            span = clause.for_
            if span is None or clause.on is not None or len(span.lengths) > 1:
                continue
            names = at.metrics(clause.condition, rule.each)
            if (span.n or at.lasts(span, SAMPLES) is not None) and at.rates_differ(names):
                slow = name_text(at.slowest(names))
                yield self.found(
                    "these samples are those of the quickest metric here", span.span, "samples of what?",
                    f"write `for {expression_text(span)} on {slow}`",
                )  # fmt: skip


class DeltaHeld(Lint):
    """`delta(x)` keeps its value until x has its next point.

    Beside a quicker metric, without `on`, one step of x counts at every evaluation until then: `delta(val_loss) > 0` stays
    true for a whole validation interval.
    """

    code = "V214"
    sees_more_in_runs = True
    bad = "when delta(val_loss) > 0.1 and loss > 3 -> yellow"
    good = "when delta(val_loss) > 0.1 and loss > 3 on val_loss -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule, clause in at.clauses:
            if clause.on is None:
                yield from self._clause(rule, clause, at)

    def _clause(self, rule: rules.Rule, clause: rules.Clause, at: Looked) -> Iterator[Diagnostic]:
        deltas = [n for n in at.within(clause.condition, ex.Call) if n.function == "delta"]
        for node in deltas:
            names = at.metrics(clause.condition, rule.each)
            if len(node.arguments) == 1 and at.rates_differ(names):
                slow = at.slowest(names)
                if slow in at.metrics(node, rule.each):
                    shown = name_text(slow)
                    yield self.found(f"`{expression_text(node)}` is held until the next point of `{shown}`", node.span,
                                     "counted many times", f"add `on {shown}` to this `when`")  # fmt: skip


class OlderThanItsFor(Lint):
    """A slow metric beside a quick one is read as of its newest point, again and again.

    `val > 2 * loss for 20 steps`, with a validation every 500 steps, holds one and the same val against loss for all of
    the `for`. Waiting does not confirm the val: count its own points.
    """

    code = "V105"
    sees_more_in_runs = True
    bad = (
        'metric loss = "loss" every 1 steps\nmetric val = "val" every 500 steps\n'
        "when val > 2 * loss for 20 steps -> yellow"
    )
    good = (
        'metric loss = "loss" every 1 steps\nmetric val = "val" every 500 steps\n'
        "when val > 2 * mean(loss, 50 steps) for 2 samples on val -> yellow"
    )

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule, clause in at.clauses:
            lasts = at.lasts(clause.for_, STEPS)
            if lasts is None or clause.on is not None or clause.for_ is None or len(clause.for_.lengths) > 1:
                continue
            cadences = {
                name: c for name in at.metrics(clause.condition, rule.each) if (c := at.every(name)) is not None
            }
            if cadences and min(cadences.values()) <= lasts < max(cadences.values()):
                slow = max(sorted(cadences), key=lambda name: cadences[name])
                yield self.found(
                    f"`{slow}` does not change within this `for`", clause.for_.span,
                    f"logged every {cadences[slow]:g} steps", f"write `for 2 samples on {name_text(slow)}`",
                )  # fmt: skip
