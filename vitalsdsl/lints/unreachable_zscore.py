"""A z-score or reference over too few points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from vitalsdsl import expressions as ex
from vitalsdsl.diagnostic import Diagnostic, Severity
from vitalsdsl.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked

_NEED_FIVE = ("usual", "noise", "zscore", "mad")


class UnreachableZscore(Lint):
    """Robust references need five points; a window of fewer samples is unknown for ever.

    And (x - mean) / std of the same n points can never exceed (n - 1) / √n: over 10 points no value is 3 sigma out, since
    the outlier widens the sigma that it is measured with. `zscore` looks at the points before, so it has no such bound.
    """

    code = "V212"
    severity = Severity.ERROR
    bad = "when zscore(loss, 4 samples) > 3 -> yellow"
    good = "when zscore(loss, 50 samples) > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for expression in at.expressions:
            for node in expression.walk():
                if isinstance(node, ex.Call) and node.function in _NEED_FIVE and len(node.arguments) > 1:
                    extent = at.extent(node.arguments[1].value)
                    if extent is not None and extent[1] == "samples" and extent[0] < 5:
                        yield self.found(f"`{expression_text(node)}` is never known", node.arguments[1].span,
                                         "needs five points", "write `20 samples`")  # fmt: skip
                elif isinstance(node, ex.Comparison) and len(node.operands) == 2:
                    yield from self._classic(node, at)

    def _classic(self, node: ex.Comparison, at: Looked) -> Iterator[Diagnostic]:
        score, bound = node.operands[0], at.value(node.operands[1])
        if bound is None or not isinstance(score, ex.Arithmetic) or score.operator != "/":
            return
        below, above = score.right, score.left
        if not (isinstance(below, ex.Call) and below.function == "std" and isinstance(above, ex.Arithmetic)):
            return
        mean = above.right
        if not (isinstance(mean, ex.Call) and mean.function == "mean" and above.operator == "-"):
            return
        if [expression_text(a.value) for a in mean.arguments] != [expression_text(a.value) for a in below.arguments]:
            return
        extent = at.extent(below.arguments[1].value) if len(below.arguments) > 1 else None
        if extent is None or extent[1] == "time" or node.operators[0] not in (">", ">="):
            return
        most = (extent[0] - 1) / math.sqrt(extent[0])
        if bound >= most:
            yield self.found(f"no point of {extent[0]:g} can be {bound:g} sigma out", node.span,
                             f"at most {most:.2f}", "use `zscore`, which looks at the points before")  # fmt: skip
