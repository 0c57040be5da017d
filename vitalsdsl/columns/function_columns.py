"""The functions of a plan over one recorded run: their vectorised forms, and where they have none, their own memory."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from vitalsdsl.columns.run_columns import CannotSay, RunColumns
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.columns import Array, Column, Slack
from vitalsdsl.kernels.ordered import Ordered
from vitalsdsl.kernels.roughly import Roughly
from vitalsdsl.kernels.sliding import Windows
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.kernels.told import Told
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.spells import Spells

UNKNOWN = Column(np.float64(np.nan))


class FunctionColumns(RunColumns):
    """The part of `Columnwise` that says what functions answer."""

    @functools.cached_property
    def _roughly(self) -> dict[int, Roughly]:
        """Windows that have been looked at roughly, by their identity: functions over the same ones share what is found."""
        return {}

    def told(self, node: sg.Held) -> Spells:
        """An event, a phase or a held condition at its evaluations. Raises CannotSay."""
        raise NotImplementedError

    def function(self, node: nd.Function) -> Column:
        key = ("function", node)
        memo = self._memo(node)
        if key not in memo:
            made = self._vectorised(node)
            memo[key] = made if made is not None else self._gone_through(node)
        column: Column = memo[key]
        return column

    def bounds(self, node: nd.Node) -> Column | None:
        """A number with a slack, where something below it is much sooner known so; None where nothing is."""
        raise NotImplementedError

    def is_worked_out(self, node: nd.Function) -> bool:
        """Whether somebody has asked what it answers at each closed step."""
        return ("function", node) in self._memo(node)

    def roughly(self, node: nd.Function) -> Column | None:
        """What a function that puts points in order answers, with a slack, where that is much sooner had than the very
        number; None where it is not."""
        if self.is_worked_out(node):
            return None
        key = ("roughly", node)
        memo = self._memo(node)
        if key not in memo:
            memo[key] = self._bounded(node)
        column: Column | None = memo[key]
        return column

    def _bounded(self, node: nd.Function) -> Column | None:
        windows = self.windows_in_order(node)
        if windows is not None:
            assert node.call is not None
            rough = self._roughly.get(id(windows))
            if rough is None:
                rough = self._roughly[id(windows)] = Roughly(windows)
            return node.call[0].over(rough, node.call[1]) if rough.are_worth_it else None
        if node.call is not None:
            points = self._points_in_order(node)
            return None if points is None else node.call[0].roughly(points, self.rows, node.call[1])
        back, earlier = self.looked_back(node), self._looked_back_on(node)
        if back is None or earlier is None:
            return None
        values, slack = (np.broadcast_to(part, (self.count,))[back] for part in (earlier.values, earlier.slack))
        return Column(np.where(back >= 0, values, np.nan), np.where(back >= 0, slack, 0.0))

    def _looked_back_on(self, node: nd.Function) -> Column | None:
        """Of a function that answers with what a number was, between which bounds that is; None where there are none."""
        if node.call is not None or len(node.streams) != 1 or len(node.inputs) != 1:
            return None
        stream = node.streams[0]
        if not isinstance(stream, (sg.Feed, sg.Let)) or isinstance(stream, sg.EdgeFeed) or stream.source.is_condition:
            return None
        return self.bounds(stream.source)

    def windows_in_order(self, node: nd.Function) -> Windows | None:
        """The windows whose points a function puts in order, as long as these are known to the last digit."""
        points = self._points_in_order(node)
        return None if points is None or node.call is None else node.call[0].windows(points, self.rows, node.call[1])

    def _points_in_order(self, node: nd.Function) -> Points | None:
        """The points that a function puts in order, likewise."""
        if node.call is None or len(node.streams) != 1 or not isinstance(node.state, (Ordered, Accepted)):
            return None
        if isinstance(node.state, Accepted):
            points = self.let_in_points(node.state)
        else:
            points = self.stream(node.streams[0], node.state.takes_unknown).since(self.since(node.state))
        return None if np.any(points.slack) else points

    def looked_back(self, node: nd.Function) -> Array | None:
        """Of a function that answers with what a number was at an earlier evaluation, at which row that was, for each closed
        step; -1 for none. None where that number has no bounds."""
        key, memo = ("looked back", node), self._memo(node)
        if key not in memo:
            earlier = self._looked_back_on(node)
            if earlier is None:
                return None
            memo[key] = self._places_before(node, earlier)
        back: Array | None = memo[key]
        return back

    def _places_before(self, node: nd.Function, earlier: Column) -> Array | None:
        rows = self.evaluations(node.streams[0])  # type: ignore[arg-type]
        own = rows[np.searchsorted(rows, self.since(node.state)) :]
        if not node.state.takes_unknown:
            own = own[~np.isnan(np.broadcast_to(earlier.values, (self.count,))[own])]
        found = node.state.columns(Points(own, np.arange(len(own), dtype=float)), self.rows)  # type: ignore[attr-defined]
        if found is None:
            return None
        back = np.full(self.count, -1)
        there = ~np.isnan(found.values)
        back[there] = own[found.values[there].astype(np.int64)]
        return back

    def _vectorised(self, node: nd.Function) -> Column | None:
        events = [inner for inner in node.inputs if isinstance(inner, sg.Event)]
        if node.call is None and len(node.streams) == len(events) == 1:
            points = self.stream(node.streams[0], node.state.takes_unknown).since(self.since(node.state))
            at: Column | None = node.state.columns_at_edges(points, self.told_to(node, events[0]).edges, self.rows)  # type: ignore[attr-defined]
            return at
        if len(node.streams) + len(events) != 1:
            return None
        if events:
            if node.call is None:
                return None
            told: Column | None = node.call[0].columns_of_edges(self.told_to(node, events[0]), self.rows, node.call[1])
            return told
        if isinstance(node.state, Accepted):
            points = self.let_in_points(node.state)
        else:
            points = self.stream(node.streams[0], node.state.takes_unknown).since(self.since(node.state))
        made: Column | None = (
            node.call[0].columns(points, self.rows, node.call[1])
            if node.call is not None
            else node.state.columns(points, self.rows)  # type: ignore[attr-defined]
        )
        return made

    def told_to(self, node: nd.Function, event: sg.Event) -> Told:
        """What a function hears of an event; of a phase, where it asks for that, the ends are its edges."""
        told, since = self.told(event), self.since(node.state)
        edges = told.edges
        if isinstance(event, sg.Phase) and any(state is node.state for state in event.ends):
            edges = told.rows[1:][(told.held[1:] == 0) & (told.held[:-1] == 1)]
        known = told.rows[told.known]
        return Told(edges[np.searchsorted(edges, since) :], known[np.searchsorted(known, since) :])

    def _gone_through(self, node: nd.Function) -> Column:
        """The values of a function without a vectorised form, from its own memory, point by point."""
        if isinstance(node.state, Accepted):
            raise CannotSay(f"`{node.text}` has no vectorised form")
        if node.call is not None:
            function, fixed = node.call
            state = function.new(fixed)
            read = function.reader(state, fixed)
        else:
            state = copy.deepcopy(node.state)
            read = state.read
        events = {inner: self.told_to(node, inner) for inner in node.inputs if isinstance(inner, sg.Event)}
        if node.call is None and events and not any(len(told.edges) for told in events.values()):
            return UNKNOWN  # it answers with what was so at an edge
        pending: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        slack: Slack = 0.0
        steps, times = self.rows.steps.tolist(), self.rows.times.tolist()
        for place, stream in enumerate(node.streams):
            points = self.stream(stream, state.takes_unknown).since(self.since(node.state))
            if node.call is None:
                slack = points.slack  # it only answers with one of its points
            elif np.any(points.slack):
                raise CannotSay("a function of a number that is not known to the last digit")
            push = state.push_second if place else state.push
            as_told = _as_condition if node.call is None and _is_of_condition(stream) else float
            for row, value in zip(points.rows.tolist(), points.values.tolist()):
                pending.append((row, place, push, (steps[row], times[row], as_told(value))))
        for told in events.values():
            evaluated, edge = state.evaluated, state.edge
            pending += [(row, 2, evaluated, (steps[row], times[row], True)) for row in told.known.tolist()]
            pending += [(row, 3, edge, (steps[row], times[row])) for row in told.edges.tolist()]
        pending.sort(key=lambda one: one[:2])
        out, at = np.full(self.count, np.nan), 0
        for row in range(self.count):
            while at < len(pending) and pending[at][0] == row:
                pending[at][2](*pending[at][3])
                at += 1
            value = read(steps[row], times[row])
            if value is not None:
                out[row] = value
        return Column(out, slack)


def _is_of_condition(stream: nd.Node) -> bool:
    return isinstance(stream, sg.Feed) and stream.source.is_condition


def _as_condition(value: float) -> bool | None:
    return None if value != value else bool(value)
