"""A trend without an effect size beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vitalsdsl.ground.diagnostic import Diagnostic
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.looked import conjuncts

_TRENDS = ("rising", "falling", "monotone_up", "monotone_down")


class TrendWithoutSize(Lint):
    """`rising` says that there is a trend, not that it matters: over enough points the smallest one is certain.

    Autocorrelated noise drifts, and a schedule makes everything drift a little. Ask for a size as well.
    """

    code = "V215"
    bad = "when rising(val_loss, 20 samples) -> orange"
    good = "when rising(val_loss, 20 samples) and val_loss > 1.05 * lowest(val_loss) -> orange"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        for _, clause in at.clauses:
            for trend in _lonely(clause.condition):
                yield self.found(f"`{expression_text(trend)}` alone says nothing of how much", trend.span,
                                 "no effect size", f"add `and {_subject(trend)} > 1.05 * lowest({_subject(trend)})`")  # fmt: skip


def _lonely(node: ex.Expression) -> Iterator[ex.Call]:
    """Trends that no comparison stands beside in an `and`."""
    if isinstance(node, ex.Call) and node.function in _TRENDS:
        yield node
    elif isinstance(node, ex.Or):
        for part in node.operands:
            yield from _lonely(part)
    elif isinstance(node, ex.Held):
        yield from _lonely(node.condition)
    elif isinstance(node, ex.And) and not any(isinstance(n, (ex.Comparison, ex.Name)) for n in conjuncts(node)):
        for part in conjuncts(node):
            yield from _lonely(part)


def _subject(call: ex.Call) -> str:
    return expression_text(call.arguments[0].value)
