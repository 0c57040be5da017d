"""Midway: a stream that begins within a recorded run, as if it had seen the rows before.

Up to the first row at which one of its rules may leave green, columns say all that it would have come to know: which points
each function has been handed, which of them its references have let in. So it is handed those, and nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vitalsdsl.columns.joined import Joined
from vitalsdsl.columns.run_columns import CannotSay, clock_of
from vitalsdsl.columns.screen import Screen
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.pairs import Pairs
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.window import Window
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.table import Table
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, Guard

_PLAIN = (sg.Feed, sg.Let, sg.Freeze, sg.Held, sg.Event, Clause, ClearWhen, Guard)
"""Roots of which columns say all that they remember, as long as no rule has left green and no event has happened."""


def put_midway(stream: Stream, joined: Joined, begins: Sequence[int], past: Table, total_steps: float) -> bool:
    """Have a stream that has seen nothing stand where it would after the rows of `past`, at none of which one of its rules
    could leave green. `joined` is its plan, with the names that came in those rows. False where columns do not say enough:
    the stream is then not to be used."""
    graph = joined.plan.graph
    if graph.stalled or any(type(root) not in _PLAIN for root in (*graph.roots, *graph.guards)):
        return False
    screen = Screen(joined, begins, past, total_steps)
    try:
        for root in graph.roots:
            _put_root(root, screen)
        for state in graph.states:
            _put_state(state, screen)
    except CannotSay:
        return False
    for path, metric in joined.plan.metrics.nodes.items():
        _put_metric(metric, screen.columns.points.get(path), past)
    for intake in (*joined.plan.metrics.intakes.values(), *joined.plan.metrics.counters.values()):
        intake.bound = screen.columns.bound_to(intake)
    clock = clock_of(joined.plan, past, total_steps)
    stream.begin_after(joined.plan, clock, {name: int(past.rows.steps[p.rows[-1]]) for name, p in past.points.items()})
    return True


def _put_root(root: sg.Root, screen: Screen) -> None:
    columns = screen.columns
    screen.settle(columns.references(root))
    if isinstance(root, sg.Freeze):
        if screen.has_frozen(root):
            raise CannotSay("a reference that was frozen")
    elif isinstance(root, Clause):
        if root.holding.span.n or root.clear_holding.span.n:
            raise CannotSay("a span of k of n samples")
        root.latest = _newest_truth(root.condition, root, screen)
    elif isinstance(root, ClearWhen):
        root.value = _newest_truth(root.condition, root, screen)
    elif isinstance(root, sg.Held):
        _put_event(root, screen)
    elif isinstance(root, sg.Feed):
        points = columns.stream(root, unknown_too=True)
        if np.any(points.slack):
            raise CannotSay("a number that is not known to the last digit")
        if len(points):
            root.value = _as_read(root.source, float(points.values[-1]))
        known = columns.stream(root, unknown_too=False)
        if len(known):
            root.step, root.time = _moment(columns.rows, int(known.rows[-1]))


def _newest_truth(condition: nd.Node, root: sg.Root, screen: Screen) -> bool | None:
    rows = screen.columns.evaluations(root)
    said = screen.columns.condition(condition)
    if not said.is_certain:
        raise CannotSay("a condition is too close to call")
    return _as_read(condition, float(said.numbers(screen.columns.count)[rows[-1]])) if len(rows) else None


def _as_read(node: nd.Node, value: float) -> Any:
    if not node.is_condition:
        return value
    return None if value != value else bool(value)


def _moment(rows: Any, row: int) -> tuple[int, float]:
    return int(rows.steps[row]), float(rows.times[row])


def _put_event(event: sg.Held, screen: Screen) -> None:
    """Of one whose condition has never been true there is little to remember."""
    told = screen.columns.told(event)
    if (
        np.any(screen.columns.condition(event.source).numbers(screen.columns.count)[told.rows] == 1)
        or event.holding.span.n
    ):
        raise CannotSay("an event that has begun")
    if len(told.rows):
        event.value = False if told.known.any() else None
    if isinstance(event, sg.Event) and len(told.rows):
        event.evaluated_step, _ = _moment(screen.columns.rows, int(told.rows[-1]))
        event.since_edge = len(told.rows)


def _put_state(state: State, screen: Screen) -> None:
    """Hand a memory its points; of a window those that it still holds."""
    columns, since = screen.columns, screen.columns.since(state)
    node = columns.readers.get(state)
    if node is None:
        raise CannotSay("a memory that nothing reads")
    screen.settle(columns.references(node))
    if isinstance(state, Accepted):
        _put_reference(state, screen)
        return
    for event in node.inputs:
        if isinstance(event, sg.Event):
            told = columns.told(event)
            for row in told.rows[told.known & (told.rows >= since)].tolist():
                state.evaluated(*_moment(columns.rows, row), True)
    pending: list[tuple[int, int, Any]] = []
    for place, stream in enumerate(node.streams):
        points = columns.stream(stream, state.takes_unknown).since(since)
        if np.any(points.slack):
            raise CannotSay("a number that is not known to the last digit")
        if isinstance(state, Window) and not isinstance(state, Pairs):
            _put_window(state, points, columns.rows)
            continue
        as_told = isinstance(stream, sg.Feed) and node.call is None
        for row, value in zip(points.rows.tolist(), points.values.tolist()):
            pending.append((row, place, _as_read(stream.source, value) if as_told else value))  # type: ignore[attr-defined]
    pending.sort(key=lambda one: one[:2])
    for row, place, value in pending:
        push = state.push_second if place else state.push
        push(*_moment(columns.rows, row), value)


def _put_window(state: Window, points: Points, rows: Any) -> None:
    axis = (
        np.arange(len(points))
        if state.unit == SAMPLES
        else (rows.steps if state.unit == STEPS else rows.times)[points.rows]
    )
    placed = axis == axis
    axis, at, values = axis[placed], points.rows[placed], points.values[placed]
    if not len(axis):
        return
    begin = int(np.searchsorted(axis, axis[-1] - state.size, side="left"))
    state.seen = begin
    for row, value in zip(at[begin:].tolist(), values[begin:].tolist()):
        state.push(*_moment(rows, row), value)
    state.first = axis[0].item()


def _put_reference(state: Accepted, screen: Screen) -> None:
    columns = screen.columns
    offered, let_in = columns.reference_points(state), columns.let_in_points(state)
    if np.any(offered.slack):
        raise CannotSay("a number that is not known to the last digit")
    axis = (columns.rows.times if state.unit == TIME else columns.rows.steps)[offered.rows]
    placed = axis == axis
    accepted = placed & np.isfinite(let_in.values)
    at, values = offered.rows[accepted], offered.values[accepted]
    begin = 0
    if len(at) and state.unit == SAMPLES:
        begin = max(0, len(at) - int(state.size))
    elif len(at):
        begin = int(np.searchsorted(axis[accepted], axis[accepted][-1] - state.size, side="right"))
    for row, value in zip(at[begin:].tolist(), values[begin:].tolist()):
        state.push(*_moment(columns.rows, row), value)
        state.decide(accept=True)
    if placed.any():
        state.first, state.count = axis[placed][0].item(), len(at)


def _put_metric(node: nd.MetricNode, points: Points | None, past: Table) -> None:
    if points is not None:
        step, time = _moment(past.rows, int(points.rows[-1]))
        node.load([step, step, time, float(points.values[-1])])
