"""A recorded run as columns: its closed steps, and of each logged name the rows at which it has a point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import cast

import numpy as np

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.kernels.spread_out import Points

AT_ONCE = 50_000
"""Rows that are turned into columns together."""


@dataclass(frozen=True)
class Table:
    """One run that only goes forward: `rows` are its closed steps, `points` what each name logged at them."""

    rows: Rows
    points: Mapping[str, Points]

    def __len__(self) -> int:
        return len(self.rows)

    def before(self, row: int) -> Table:
        """The rows before one."""
        points = {name: one.before(row) for name, one in self.points.items() if one.rows[0] < row}
        return Table(Rows(self.rows.steps[:row], self.rows.times[:row]), points)

    def events(self, after: int | None = None) -> Iterator[Row]:
        """The rows of the closed steps after one, made anew: of a step that came in several rows there is one."""
        begin = 0 if after is None else int(np.searchsorted(self.rows.steps, after, side="right"))
        for first in range(begin, len(self), AT_ONCE // 50):
            part = slice(first, first + AT_ONCE // 50)
            steps, times = self.rows.steps[part].tolist(), self.rows.times[part].tolist()
            logged: list[dict[str, float]] = [{} for _ in steps]
            for name, points in self.points.items():
                own = slice(*np.searchsorted(points.rows, (first, first + len(steps))).tolist())
                for row, value in zip(points.rows[own].tolist(), points.values[own].tolist()):
                    logged[row - first][name] = value
            yield from map(Row, steps, logged, times)

    @classmethod
    def of(cls, events: Iterable[Row | Rewind]) -> Table | None:
        """The columns of a run; None where it goes back, a point comes after its step has closed, or a name comes twice
        at one step: such a run is gone through step by step.

        >>> table = Table.of([Row(1, {"loss": 2.0}), Row(3, {"loss": 1.5, "lr": 0.1})])
        >>> table.rows.steps.tolist(), table.points["lr"].rows.tolist()
        ([1, 3], [1])
        """
        columns, rest = _Columns(), iter(events)
        while chunk := list(islice(rest, AT_ONCE)):
            if any(issubclass(kind, Rewind) for kind in set(map(type, chunk))) or not columns.add(
                cast("list[Row]", chunk)
            ):
                return None
        return columns.table()


class _Columns:
    """The columns of the rows so far. Nothing is kept of each row: of so many small things the garbage collector would take
    as long as all the rest, and a long run would not fit."""

    def __init__(self) -> None:
        self._steps: list[Array] = []
        self._times: list[Array] = []
        self._count = 0
        """How many closed steps there are."""
        self._newest: float = -math.inf
        self._parts: dict[str, list[tuple[Array, Array]]] = {}

    def add(self, rows: Sequence[Row]) -> bool:
        """Take some in; False where they go back."""
        count = len(rows)
        steps = np.fromiter(map(attrgetter("step"), rows), np.int64, count)
        times = np.fromiter(map(attrgetter("time"), rows), float, count)
        if (steps[1:] < steps[:-1]).any() or steps[0] < self._newest:
            return False
        begins = np.concatenate([[steps[0] > self._newest], steps[1:] > steps[:-1]])
        places = np.cumsum(begins) + (self._count - 1)
        logged = [row.values for row in rows]
        kinds = list(dict.fromkeys(map(tuple, logged)))
        for kind, found in _alike(logged, kinds):
            own, own_rows = (logged, places) if found is None else ([logged[at] for at in found], places[found])
            flat = chain.from_iterable(values.values() for values in own)
            values = np.fromiter(flat, float, len(own) * len(kind)).reshape(len(own), len(kind))
            for name, column in zip(kind, values.T):
                self._parts.setdefault(name, []).append((own_rows, np.ascontiguousarray(column)))
        self._steps.append(steps)
        self._times.append(times)
        self._count += int(begins.sum())
        self._newest = float(steps[-1])
        return True

    def table(self) -> Table | None:
        """All of it; None where a name comes twice at one step. Names that always come together share their rows."""
        points: dict[str, Points] = {}
        rows_of: dict[tuple[int, ...], tuple[Array, Array | None]] = {}
        for name in list(self._parts):
            pieces = self._parts.pop(name)
            key = tuple(id(rows) for rows, _ in pieces)
            if key not in rows_of:
                rows_of[key] = _in_order([rows for rows, _ in pieces])
            rows, order = rows_of[key]
            if (rows[1:] <= rows[:-1]).any():
                return None
            values = np.concatenate([values for _, values in pieces]) if len(pieces) > 1 else pieces[0][1]
            points[name] = Points(rows, values if order is None else values[order])
        if not self._steps:
            return Table(Rows(np.empty(0, np.int64), np.empty(0)), points)
        steps, times = np.concatenate(self._steps), np.concatenate(self._times)
        begins = np.concatenate([[True], steps[1:] > steps[:-1]])
        if not begins.all():
            times = np.fmax.reduceat(times, np.nonzero(begins)[0])
        return Table(Rows(steps[begins], np.fmax.accumulate(times)), points)


def _in_order(pieces: Sequence[Array]) -> tuple[Array, Array | None]:
    """Rows of all pieces, in order; in which order their values are then, None for their own."""
    rows = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
    if len(pieces) == 1 or (rows[1:] > rows[:-1]).all():
        return rows, None
    order = np.argsort(rows, kind="stable")
    return rows[order], order


def _alike(
    logged: Sequence[Mapping[str, float]], kinds: Sequence[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], list[int] | None]]:
    """Of each kind of row, by the names in it, where there are such rows; None for everywhere."""
    if len(kinds) == 1:
        yield kinds[0], None
        return
    places: dict[tuple[str, ...], list[int]] = {kind: [] for kind in kinds}
    for place, values in enumerate(logged):
        places[tuple(values)].append(place)
    yield from places.items()
