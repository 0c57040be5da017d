"""A reference over too few points to be known, or a score that cannot be reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.types import TIME
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.bounds import factor_of

_NEED_FIVE = ("usual", "noise", "zscore", "mad")


class UnreachableZscore(Lint):
    """`usual`, `noise`, `zscore` and `mad` need five points: over fewer they are unknown for ever.

    And (x - mean) / std of the same n points can never exceed (n - 1) / √n: over 10 points no value is 3 sigma out, since
    the outlier widens the sigma that it is measured with. `zscore` looks at the points before, so it has no such bound.
    """

    code = "V212"
    sees_more_in_runs = True
    severity = Severity.ERROR
    bad = "when zscore(loss, 4 samples) > 3 -> yellow"
    good = "when zscore(loss, 50 samples) > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for call in at.all(ex.Call):
            if call.function in _NEED_FIVE:
                given = at.given(call)
                points = at.points(at.window(call), given["x"], shortest=True)
                if points is not None and points < 5:
                    yield self.found(f"`{expression_text(call)}` is never known: it needs five points",
                                     given["W"].span, f"{points:g} at most", "write `20 samples`")  # fmt: skip
        deviations = any(call.function == "std" for call in at.all(ex.Call))
        for node in at.all(ex.Comparison) if deviations else ():
            if len(node.operands) == 2 and node.operators[0] in (">", ">="):
                yield from self._classic(node, at)

    def _classic(self, node: ex.Comparison, at: Looked) -> Iterator[Diagnostic]:
        """`(x - mean) / std > k`, `x - mean > k * std`, `x > mean + k * std`."""
        read = _as_score(node.operands[0], node.operands[1], at)
        if read is None:
            return
        x, mean, std, bound = read
        same = [expression_text(a.value) for a in mean.arguments] == [expression_text(a.value) for a in std.arguments]
        window = at.window(std)
        if not same or expression_text(std.arguments[0].value) != expression_text(x) or window is None:
            return
        if window[1] == TIME or window[0] < 2:
            return
        most = (window[0] - 1) / math.sqrt(window[0])
        if bound >= most:
            yield self.found(f"no point of {window[0]:g} can be {bound:g} sigma above their mean", node.span,
                             f"at most {most:.2f}", "use `zscore`, which looks at the points before")  # fmt: skip


def _as_score(
    left: ex.Expression, right: ex.Expression, at: Looked
) -> tuple[ex.Expression, ex.Call, ex.Call, float] | None:
    """x, its mean, its std and the number of sigmas, in whichever form they are written."""
    bound = at.value(right)
    if isinstance(left, ex.Call) and left.function == "abs" and len(left.arguments) == 1:
        left = left.arguments[0].value
    if bound is not None and isinstance(left, ex.Arithmetic) and left.operator == "/":
        difference, std = left.left, left.right
        if isinstance(difference, ex.Call) and difference.function == "abs" and len(difference.arguments) == 1:
            difference = difference.arguments[0].value
    elif isinstance(right, ex.Arithmetic) and right.operator == "+":
        bound, std = factor_of(right.right, at)
        return _checked(left, right.left, std, bound)
    else:
        bound, std = factor_of(right, at)
        difference = left
    if not isinstance(difference, ex.Arithmetic) or difference.operator != "-":
        return None
    return _checked(difference.left, difference.right, std, bound)


def _checked(
    x: ex.Expression, mean: ex.Expression, std: ex.Expression, bound: float
) -> tuple[ex.Expression, ex.Call, ex.Call, float] | None:
    if isinstance(mean, ex.Call) and isinstance(std, ex.Call) and (mean.function, std.function) == ("mean", "std"):
        return (x, mean, std, bound) if len(std.arguments) == 2 else None
    return None
