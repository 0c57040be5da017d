"""A clear condition that can hold together with what fires."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.bounds import Bound, bounds


class OverlappingClear(Lint):
    """`when x > 3` with `clear when x < 5`: between 3 and 5 both hold, and the rule can neither stay nor go.

    The clear condition belongs on the other side of the threshold: that is what hysteresis is for. Of a rule with several
    `when` it is enough that one of them leaves room.
    """

    code = "V403"
    severity = Severity.ERROR
    bad = "rule r { when loss > 3 -> yellow clear when loss < 5 for 10 steps }"
    good = "rule r { when loss > 3 -> yellow clear when loss < 2.5 for 10 steps }"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for rule in at.enabled():
            clear = rule.body.clear.condition if rule.body.clear is not None else None
            if not isinstance(clear, ex.Comparison):
                continue
            down = list(bounds(clear, at))
            up = [
                b for c in rule.body.clauses if isinstance(c.condition, ex.Comparison) for b in bounds(c.condition, at)
            ]
            if len(down) == 1 and len(up) == len(rule.body.clauses) and all(_overlap(b, down[0]) for b in up):
                text = expression_text(rule.body.clauses[0].condition)
                yield self.found("the clear condition holds while the rule fires", clear.span, "they overlap",
                                 f"clear on the other side of `{text}`")  # fmt: skip


def _overlap(fire: Bound, clear: Bound) -> bool:
    """Whether both can hold; False where that cannot be seen."""
    if fire.key != clear.key:
        return False
    if fire.is_above and clear.is_below:
        return clear.value > fire.value
    if fire.is_below and clear.is_above:
        return clear.value < fire.value
    return (fire.is_above and clear.is_above) or (fire.is_below and clear.is_below)
