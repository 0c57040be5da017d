"""Midway: a stream that goes on after a recorded run, or within it, as if it had seen the rows before.

Columns say all that it would have come to know: where its rules stand, which points each function has been handed, which of
them its references have let in. So it is handed those, and nothing is evaluated.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from vitalsdsl.columns.changes import Changes
from vitalsdsl.columns.columnwise import Columnwise
from vitalsdsl.columns.joined import Joined
from vitalsdsl.columns.remembered import count_all, put_edges, still_asked_for
from vitalsdsl.columns.run_columns import CannotSay, clock_of
from vitalsdsl.columns.screen import Screen
from vitalsdsl.columns.standing import Standing, as_truth
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.deferred import Points as Many
from vitalsdsl.kernels.edges import EdgeCount
from vitalsdsl.kernels.lag import Lag
from vitalsdsl.kernels.pairs import Pairs
from vitalsdsl.kernels.preceding import Preceding
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.window import Window
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.table import Table
from vitalsdsl.streaming.stream import Stream

MOST_ANEW = 5_000
"""So many points of an expression may be worked out one by one because columns do not know them to the last digit."""


def put_after(stream: Stream, joined: Joined, screen: Screen, changes: Changes, past: Table) -> bool:
    """Have a stream that has seen nothing stand where it would after the rows of `past`. The others are of these rows, and of
    a plan with the same rules. False where columns do not say enough: the stream is then not to be used."""
    plan, columns = joined.plan, screen.columns
    for names in _as_they_came(past):
        stream.plan.see_names(names)
    own = stream.plan
    try:
        Standing(screen, changes).put(plan, own)
        twins = list(zip(plan.graph.states, own.graph.states, strict=True))
        twins.sort(key=lambda twin: -_length(twin[1]))  # the points of a shorter window are the end of a longer one's
        for state, twin in twins:
            columns.spare()
            _put_state(state, twin, screen)
    except CannotSay:
        return False
    for path, metric in own.metrics.nodes.items():
        _put_metric(metric, columns.points.get(path), past)
    for known, intakes in ((plan.metrics.intakes, own.metrics.intakes), (plan.metrics.counters, own.metrics.counters)):
        for name, intake in known.items():
            intakes[name].bound = columns.bound_to(intake)
    seen = {name: int(past.rows.steps[points.rows[-1]]) for name, points in past.points.items()}
    stream.begin_after(own, clock_of(own, past, stream.total_steps), seen)
    return True


def _length(state: State) -> float:
    return state.size if isinstance(state, Window) else 0.0


def _as_they_came(past: Table) -> list[list[str]]:
    """All logged names in the order in which they came for the first time, with those of one row together."""
    found: dict[int, list[str]] = {}
    for name, points in past.points.items():
        found.setdefault(int(points.rows[0]), []).append(name)
    return [found[row] for row in sorted(found)]


def _put_state(state: State, own: State, screen: Screen) -> None:
    """Hand a memory its points; of a window those that it still holds."""
    columns, since = screen.columns, screen.columns.since(state)
    node = columns.readers.get(state)
    if node is None:
        raise CannotSay("a memory that nothing reads")
    screen.settle(columns.references(node))
    if isinstance(state, Accepted):
        _put_reference(state, own, node.streams[0], screen)
        return
    if isinstance(own, Window) and not isinstance(own, Pairs):
        for stream in node.streams:
            _put_window(own, columns.stream(stream, state.takes_unknown).since(since), stream, columns)
        return
    events = [columns.told_to(node, event) for event in node.inputs if isinstance(event, sg.Event)]
    edges = events[0].edges if events else np.arange(0)
    told: list[tuple[int, int, Any]] = []
    for place, stream in enumerate(node.streams):
        points = columns.stream(stream, state.takes_unknown).since(since)
        which = still_asked_for(own, points, edges, columns.rows)
        values = _exactly(points, which, stream, columns).tolist()
        push = own.push_second if place else own.push
        if isinstance(stream, sg.Feed) and stream.source.is_condition and node.call is None:
            values = [as_truth(value) for value in values]
        told += [(row, place, (push, value)) for row, value in zip(points.rows[which].tolist(), values)]
    for heard in events:
        if isinstance(own, EdgeCount):
            put_edges(own, heard.known, heard.edges, columns.rows)
        else:
            told += [(row, 2, (own.edge,)) for row in heard.edges.tolist()]
    told.sort(key=lambda one: one[:2])
    steps, times = columns.rows.steps, columns.rows.times
    for row, _, (tell, *what) in told:
        tell(int(steps[row]), float(times[row]), *what)
    for stream in node.streams:
        count_all(own, columns.stream(stream, state.takes_unknown).since(since), edges, columns.rows)
    if isinstance(own, Lag) and len(steps):
        own.read(int(steps[-1]), float(times[-1]))  # it lets go of what no later row asks for


def _exactly(points: Points, which: Array, stream: nd.Node, columns: Columnwise) -> Array:
    """Some points of a stream, to the last digit."""
    if not np.any(points.slack):
        return points.values[which]
    if len(which) > MOST_ANEW:
        raise CannotSay("a number that is not known to the last digit")
    assert isinstance(stream, sg.Feed)
    values = points.values[which].copy()
    known = values == values
    values[known] = columns.at_rows(stream.source).number(stream.source, points.rows[which][known])
    return values


def _put_window(own: Window, points: Points, stream: nd.Node, columns: Columnwise) -> None:
    rows = columns.rows
    axis = (
        np.arange(len(points))
        if own.unit == SAMPLES
        else (rows.steps if own.unit == STEPS else rows.times)[points.rows]
    )
    placed = np.nonzero(axis == axis)[0]
    if not len(placed):
        return
    axis = axis[placed]
    begin = int(np.searchsorted(axis, axis[-1] - own.size, side="left"))
    values = _exactly(points, placed[begin:], stream, columns)
    own.seen = begin
    at = points.rows[placed[begin:]]
    if isinstance(own, Deferred) and not isinstance(own, Preceding) and own.unit != TIME and np.isfinite(values).all():
        steps = array("q", rows.steps[at].tobytes())
        own.push_many(Many(steps, array("d", values.tobytes()), None, len(steps), steps[0], steps[-1], values[-1]))
    else:
        for step, time, value in zip(rows.steps[at].tolist(), rows.times[at].tolist(), values.tolist()):
            own.push(step, time, value)
    own.first = axis[0].item()


def _put_reference(state: Accepted, own: State, stream: nd.Node, screen: Screen) -> None:
    assert isinstance(own, Accepted)
    columns = screen.columns
    rows = columns.rows
    offered, let_in = columns.reference_points(state), columns.let_in_points(state)
    axis = (rows.times if state.unit == TIME else rows.steps)[offered.rows]
    placed = axis == axis
    accepted = placed & np.isfinite(let_in.values)
    at = offered.rows[accepted]
    begin = 0
    if len(at) and state.unit == SAMPLES:
        begin = max(0, len(at) - int(state.size))
    elif len(at):
        begin = int(np.searchsorted(axis[accepted], axis[accepted][-1] - state.size, side="right"))
    values = _exactly(offered, np.nonzero(accepted)[0][begin:], stream, columns)
    for step, time, value in zip(*_told(rows, at[begin:]), values.tolist()):
        own.push(step, time, value)
        own.decide(accept=True)
    if placed.any():
        own.first, own.count = axis[placed][0].item(), len(at)


def _told(rows: Rows, at: Array) -> tuple[list[int], list[float]]:
    return rows.steps[at].tolist(), rows.times[at].tolist()


def _put_metric(node: nd.MetricNode, points: Points | None, past: Table) -> None:
    if points is not None:
        (step,), (time,) = _told(past.rows, points.rows[-1:])
        node.load([step, step, time, float(points.values[-1])])
