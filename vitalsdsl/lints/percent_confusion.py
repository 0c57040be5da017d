"""A ratio compared with a percentage written as a plain number."""

from __future__ import annotations

from collections.abc import Iterable

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.language.scope import Meaning
from vitalsdsl.lints.base import Lint, Looked

_RATIOS = ("cv", "fraction", "growth", "share")


class PercentConfusion(Lint):
    """`cv > 30` asks for a coefficient of variation of 3000 %.

    30% is written `30%`, or 0.3. And a metric such as throughput is compared with `70%` of something, not with 0.7.
    """

    code = "V206"
    bad = "when cv(loss, 50 steps) > 30 -> yellow"
    good = "when cv(loss, 50 steps) > 30% -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for node in at.all(ex.Comparison):
            for left, right in zip(node.operands, node.operands[1:]):
                yield from self._pair(left, right, at)

    def _pair(self, left: ex.Expression, right: ex.Expression, at: Looked) -> Iterable[Diagnostic]:
        for one, other in ((left, right), (right, left)):
            if not isinstance(other, ex.Number):
                continue
            progress = isinstance(one, ex.Name) and one.path == "progress" and at.scope.meaning(one) is Meaning.COUNTER
            ratio = progress or (isinstance(one, ex.Call) and one.function in _RATIOS)
            if ratio and not other.ratio and 1 < abs(other.value) <= 100:
                what = "runs from 0 to 1" if progress else "is a ratio"
                yield self.found(f"`{expression_text(one)}` {what}", other.span, f"{other.value * 100:g} percent",
                                 f"write `{other.text}%`")  # fmt: skip
            if (
                isinstance(one, ex.Name)
                and other.ratio
                and one.path in at.scope.metrics
                and at.scope.metrics[one.path].unit
            ):
                yield self.found(f"`{one.path}` is compared with {other.value:g}", other.span, "percent of what?",
                                 f"write `{other.text} * baseline({one.path}, 500 steps)`")  # fmt: skip
