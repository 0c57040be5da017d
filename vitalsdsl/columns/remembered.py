"""Remembered: which points of a stream its memory still rests on at the end of a run; given these alone, it is as if it had
been given all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS
from vitalsdsl.kernels.change import Change, SampleChange
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.kernels.edges import EdgeCount
from vitalsdsl.kernels.lag import AtEdge, AtStep, BeforeEdge, Lag, SampleLag
from vitalsdsl.kernels.lifetime import Lifetime
from vitalsdsl.kernels.opening import Opening
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.kernels.state import State


def still_asked_for(state: State, points: Points, edges: Array, rows: Rows) -> Array:
    """The numbers of those points, in order; `edges` are the rows at which its event had one."""
    found = _FOUND.get(type(state))
    return np.arange(len(points)) if found is None or not len(points) else found(state, points, edges, rows)


def count_all(state: State, points: Points, edges: Array, rows: Rows) -> None:
    """Have a memory that was given those points alone know how many there were."""
    if isinstance(state, Lifetime):
        state.finite = int(np.isfinite(points.values).sum())
    elif isinstance(state, Opening) and not len(edges):
        state.count = int(np.isfinite(_axis(state, points, rows)).sum())


def put_edges(state: EdgeCount, known: Array, edges: Array, rows: Rows) -> None:
    """The edges that a count still holds, of an event that was known at some rows."""
    state.count = len(known)
    places: Array
    if state.unit == SAMPLES:
        places = np.searchsorted(known, edges, side="right")
    else:
        places = (rows.steps if state.unit == STEPS else rows.times)[edges]
        places = places[places == places]
    state.places.extend(places[places > places[-1] - state.size].tolist() if len(places) else ())


def _axis(state: Any, points: Points, rows: Rows) -> Array:
    if state.unit == SAMPLES:
        return np.arange(len(points), dtype=float)
    return (rows.steps if state.unit == STEPS else rows.times)[points.rows].astype(float)


def _since(axis: Array, size: float) -> Array:
    """From the newest point that lies a length before the last on, of those that have a place."""
    placed = np.nonzero(axis == axis)[0]
    if not len(placed):
        return placed
    before = int(np.searchsorted(axis[placed], axis[placed[-1]] - size, side="right")) - 1
    found: Array = placed[max(before, 0) :]
    return found


def _change(state: Change, points: Points, edges: Array, rows: Rows) -> Array:
    return _since(_axis(state, points, rows), state.size)


def _lag(state: Lag, points: Points, edges: Array, rows: Rows) -> Array:
    return _since(_axis(state.extent, points, rows), state.extent.size)


def _newest(state: SampleLag | SampleChange, points: Points, edges: Array, rows: Rows) -> Array:
    return np.arange(len(points))[-(state.recent.maxlen or 1) :]


def _at_step(state: AtStep, points: Points, edges: Array, rows: Rows) -> Array:
    return np.arange(len(points.until(rows, state.at)))[-1:]


def _before_edge(state: BeforeEdge, points: Points, edges: Array, rows: Rows) -> Array:
    """The last two, and the two round the edge that counts."""
    count = len(points)
    which = {count - 2, count - 1}
    for edge in edges[:1] if state.once else edges[-1:]:
        which |= {int(np.searchsorted(points.rows, edge, side=side)) - 1 for side in ("left", "right")}
    return np.array(sorted(at for at in which if at >= 0))


def _at_edge(state: AtEdge, points: Points, edges: Array, rows: Rows) -> Array:
    which = {len(points) - 1, *(np.searchsorted(points.rows, edges[-1:], side="right") - 1).tolist()}
    return np.array(sorted(at for at in which if at >= 0))


def _lifetime(state: Lifetime, points: Points, edges: Array, rows: Rows) -> Array:
    """All that may be the lowest or the highest."""
    finite = np.nonzero(np.isfinite(points.values))[0]
    if not len(finite):
        return np.arange(1)
    values, slack = points.values[finite], float(np.max(points.slack))
    may_be = (values <= values.min() + 2 * slack) | (values >= values.max() - 2 * slack)
    found: Array = finite[may_be]
    if not slack:
        found = np.unique([finite[values.argmin()], finite[values.argmax()]])
    return found


def _opening(state: Opening, points: Points, edges: Array, rows: Rows) -> Array:
    """What lies in the stretch, and the last."""
    axis = _axis(state, points, rows)
    placed = np.nonzero(axis == axis)[0]
    if len(edges) or not len(placed):
        return placed
    within = axis[placed] - axis[placed[0]] < state.skip + state.size
    within[-1] = True
    found: Array = placed[within]
    return found


_FOUND: dict[type[State], Callable[[Any, Points, Array, Rows], Array]] = {
    Change: _change,
    SampleChange: _newest,
    Lag: _lag,
    SampleLag: _newest,
    AtStep: _at_step,
    BeforeEdge: _before_edge,
    AtEdge: _at_edge,
    Lifetime: _lifetime,
    Opening: _opening,
}
