"""Bounds of numbers over one recorded run: what is soon known of them, which decides most comparisons.

Medians, quantiles and deviations take long to find, and between which bounds they lie is soon seen. The bounds go through
arithmetic, lets and what looks back; where they decide nothing, the few rows are looked at one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vitalsdsl.columns.at_rows import SYMBOLS, AtRows
from vitalsdsl.columns.function_columns import FunctionColumns
from vitalsdsl.kernels.columns import Array, Column, dense
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.possible import Possible, compared
from vitalsdsl.nodes.worked_out import worked_out
from vitalsdsl.ops.abs import Abs
from vitalsdsl.ops.greatest import Greatest
from vitalsdsl.ops.least import Least

FEW = 1 / 16
"""The share of a run's rows that may be looked at one by one before whole columns are worked out instead."""


class BoundedColumns(FunctionColumns):
    """The part of `Columnwise` that says between which bounds numbers lie, and compares them there."""

    def compared_at(self, node: op.Comparison, rows: Array) -> Possible:
        at = self.at_rows(node)
        return compared(node.symbol, *(Column(at.number(side, rows)) for side in (node.left, node.right)))

    def compared_roughly(self, node: op.Comparison) -> Possible | None:
        """What a comparison is, as far as bounds say; None where its sides have none."""
        key, memo = ("compared roughly", node), self._memo(node)
        if key not in memo:
            left, right = self.bounds(node.left), self.bounds(node.right)
            if left is None and right is None:
                memo[key] = None
            else:
                memo[key] = compared(node.symbol, left or self.number(node.left), right or self.number(node.right))
        said: Possible | None = memo[key]
        return said

    def bounds(self, node: nd.Node) -> Column | None:
        memo = self._memo(node)
        build = _BOUNDS.get(type(node))
        if build is None or node in memo:
            return None
        key = ("bounds", node)
        if key not in memo:
            memo[key] = build(self, node)
        column: Column | None = memo[key]
        return column

    def _bounds_of_inputs(self, node: nd.Node) -> Column | None:
        """What the inputs' bounds make of a node; None where none of them has any."""
        found = [self.bounds(inner) for inner in node.inputs]
        if all(one is None for one in found):
            return None
        inputs = [one or self.number(inner) for one, inner in zip(found, node.inputs)]
        if isinstance(node, op.Negative):
            return Column(-inputs[0].values, inputs[0].slack)
        if isinstance(node, op.Elementwise):
            return self.applied(node, inputs)
        assert isinstance(node, (op.Arithmetic, op.ArithmeticChain))
        left, *others = inputs
        steps = [node.compute] if isinstance(node, op.Arithmetic) else [compute for compute, _ in node.steps]
        for compute, other in zip(steps, others):
            left = worked_out(SYMBOLS[compute], left, other)
        return left

    def _bounds_of_let(self, node: sg.Let) -> Column | None:
        source = self.bounds(node.source)
        if source is None:
            return None
        rows = self.evaluations(node)
        values, slack = (np.broadcast_to(part, (self.count,))[rows] for part in (source.values, source.slack))
        return Column(dense(rows, values, self.count), dense(rows, slack, self.count, before=0.0))

    @staticmethod
    def applied(node: op.Elementwise, columns: Sequence[Column]) -> Column | None:
        """The elementwise functions that are as exact as what they are of."""
        if node.compute is Abs.value:
            return Column(np.abs(columns[0].values), columns[0].slack)
        extreme = _EXTREMES.get(node.compute)
        if extreme is None:
            return None
        slack = functools.reduce(np.maximum, [column.slack for column in columns])
        return Column(functools.reduce(extreme, [column.values for column in columns]), slack)

    def at_rows(self, node: nd.Node) -> AtRows:
        """What says what a node is at some rows to the last digit."""
        memo = self._memo(node)  # what it remembers rests on references as columns do
        key = "at rows"
        if key not in memo:
            memo[key] = AtRows(self)
        found: AtRows = memo[key]
        return found


_EXTREMES = {Greatest.value: np.maximum, Least.value: np.minimum}
_BOUNDS: dict[type[nd.Node], Callable[[BoundedColumns, Any], Column | None]] = {
    nd.Function: BoundedColumns.roughly,
    sg.Let: BoundedColumns._bounds_of_let,
    **dict.fromkeys((op.Arithmetic, op.ArithmeticChain, op.Negative, op.Elementwise), BoundedColumns._bounds_of_inputs),
}
