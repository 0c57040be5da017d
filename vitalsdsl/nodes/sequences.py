"""`A then B within D` over a whole run: from where A has its edges and where B is true."""

from __future__ import annotations

import numpy as np

from vitalsdsl.ground.types import TIME, Extent
from vitalsdsl.kernels.columns import Array, Rows, dense


def followed(edges: Array, second: Array, rows: Array, at: Rows, within: Extent) -> Array:
    """`A then B within D` at its evaluations, which are at `rows`, B being 1, 0 or NaN there."""
    now = (at.times if within.unit == TIME else at.steps).astype(float)
    newest = dense(edges, now[edges], len(at))[rows]
    is_near = now[rows] - newest <= within.size
    return np.where(second == 1.0, is_near.astype(float), second)


def unfollowed(edges: Array, answers: Array, rows: Array, at: Rows, within: Extent) -> Array:
    """`A then no B within D` at its evaluations: B is evaluated and true at the rows `answers`. Never unknown."""
    now = at.times if within.unit == TIME else at.steps
    told = np.zeros(len(rows))
    i = 0
    while i < len(edges):
        opened = edges[i]
        j = np.searchsorted(answers, opened, side="right")
        closed = answers[j] if j < len(answers) else len(at)
        inside = slice(*np.searchsorted(rows, (opened, closed)))
        told[inside] = now[rows[inside]] - now[opened] >= within.size
        i = np.searchsorted(edges, max(closed, opened + 1))
    return told
