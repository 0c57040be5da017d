"""`for 20 steps` over a whole run: where a condition with a span holds, or can have held."""

from __future__ import annotations

import math

import numpy as np

from vitalsdsl.holding import Span
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.types import SAMPLES, STEPS, TIME, Extent


class Spells:
    """What became of a condition with a span at its evaluations: `held` 1, 0 or NaN, `known` its source, and the rows
    of its edges."""

    def __init__(self, rows: Array, held: Array, known: Array, edges: Array) -> None:
        self.rows = rows
        self.held = held
        self.known = known
        self.edges = edges


def spells(said: Array, rows: Array, at: Rows, span: Span, apart: Extent | None, is_event: bool) -> Spells:
    """Go through the evaluations as `Held` and `Event` do. Only where something is true or has been is there work."""
    held, edges = np.full(len(rows), np.nan), []
    onset, count, value, edge, since = -1, 0, math.nan, -1, 0
    steps, times = at.steps, at.times
    for k, (row, x) in enumerate(zip(rows.tolist(), said.tolist())):
        before = value
        since += 1
        if x == 0.0:
            onset, count, value = -1, 0, 0.0
        elif x == 1.0:
            onset = row if onset < 0 else onset
            count += 1
            holds = all(
                count >= e.size if e.unit == SAMPLES
                else steps[row] - steps[onset] + 1 >= e.size if e.unit == STEPS
                else times[row] - times[onset] >= e.size
                for e in span.extents
            )  # fmt: skip
            value = float(holds or (is_event and before == 1.0))
            if (
                value
                and before != 1.0
                and not (apart is not None and edge >= 0 and _too_soon(apart, at, edge, row, since))
            ):
                edge, since = row, 0
                edges.append(row)
        held[k] = value
    return Spells(rows, held, said == said, np.array(edges, dtype=np.int64))


def _too_soon(apart: Extent, at: Rows, edge: int, row: int, since: int) -> bool:
    if apart.unit == SAMPLES:
        return since < apart.size
    now = at.times if apart.unit == TIME else at.steps
    return bool(now[row] - now[edge] < apart.size)


def may_hold(span: Span, true: Array, surely_false: Array, at: Rows, rows: Array) -> bool:
    """Whether a condition that can be true at these evaluations can have held for a span at one of them."""
    if span.n or not span.extents:
        return bool(true.any())
    stretch = np.cumsum(surely_false)[true]
    where = rows[true]
    first = np.concatenate([[True], stretch[1:] != stretch[:-1]])
    begins = np.maximum.accumulate(np.where(first, np.arange(len(where)), 0))
    possible = np.ones(len(where), bool)
    for extent in span.extents:
        if extent.unit == SAMPLES:
            possible &= np.arange(len(where)) - begins + 1 >= extent.size
        elif extent.unit == STEPS:
            possible &= at.steps[where] - at.steps[where[begins]] + 1 >= extent.size
        elif extent.unit == TIME:
            possible &= at.times[where] - at.times[where[begins]] >= extent.size
    return bool(possible.any())
