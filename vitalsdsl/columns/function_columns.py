"""The functions of a plan over one recorded run: their vectorised forms, and where they have none, their own memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from vitalsdsl.columns.run_columns import CannotSay, RunColumns
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.columns import Column, Slack
from vitalsdsl.kernels.told import Told
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.spells import Spells

UNKNOWN = Column(np.float64(np.nan))


class FunctionColumns(RunColumns):
    """The part of `Columnwise` that says what functions answer."""

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
