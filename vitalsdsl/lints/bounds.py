"""Comparisons as bounds: what is held above or below a number, or above or below a multiple of something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import expression_text
from vitalsdsl.lints.looked import Looked

_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "==": "==", "!=": "!="}


class Bound(NamedTuple):
    """`loss > 3`, or `loss > 3 * baseline(loss, 500 steps)`: then `scaled` is what stands behind the factor."""

    subject: ex.Expression
    symbol: str
    value: float
    scaled: ex.Expression | None
    node: ex.Comparison

    @property
    def is_above(self) -> bool:
        return self.symbol in (">", ">=")

    @property
    def is_below(self) -> bool:
        return self.symbol in ("<", "<=")

    @property
    def key(self) -> tuple[str, str]:
        """Bounds with equal keys are about the same number on the same scale."""
        return expression_text(self.subject), expression_text(self.scaled) if self.scaled is not None else ""


def bounds(node: ex.Comparison, at: Looked) -> Iterator[Bound]:
    """The bounds that a comparison sets; two for a chain such as `0.1 < x < 5`."""
    for left, symbol, right in zip(node.operands, node.operators, node.operands[1:]):
        high, low = at.value(right), at.value(left)
        if high is not None and low is None:
            yield Bound(left, symbol, high, None, node)
        elif low is not None and high is None:
            yield Bound(right, _TURNED[symbol], low, None, node)
        elif low is None:
            factor, scaled = factor_of(right, at)
            if factor > 0:
                yield Bound(left, symbol, factor, scaled, node)


def factor_of(node: ex.Expression, at: Looked) -> tuple[float, ex.Expression]:
    """`3 * x` as 3 and x; 1 and the expression itself where nothing scales it."""
    if isinstance(node, ex.Arithmetic) and node.operator == "*":
        left, right = at.value(node.left), at.value(node.right)
        if left is not None:
            return left, node.right
        if right is not None:
            return right, node.left
    if isinstance(node, ex.Arithmetic) and node.operator == "/":
        right = at.value(node.right)
        if right:
            return 1 / right, node.left
    return 1.0, node
