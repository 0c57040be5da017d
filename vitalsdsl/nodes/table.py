"""A recorded run as columns: its closed steps, and of each logged name the rows at which it has a point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.kernels.spread_out import Points

Kept = TypeVar("Kept")

STOPPED = 20
"""Steps, at least, that a run goes on after a metric of each step has stopped, for it to be worth a word."""

AT_ONCE = 2_000
"""Rows that are turned into columns together: few enough to lie in the processor's caches until that is done."""


JOINED = 512
"""Pieces of which one is made."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a log, one after another, as columns: their steps and times, and of each name which of them have a point
    (None for all) and the values. Names that have one at the same rows say so with the same array."""

    steps: Array
    times: Array
    columns: Sequence[tuple[str, Array | None, Array]]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.steps)

    def rows(self) -> Iterator[Row]:
        """The rows themselves."""
        names = [name for name, which, _ in self.columns if which is None]
        full = zip(*(values.tolist() for _, which, values in self.columns if which is None))
        logged = [dict(zip(names, values)) for values in full] if names else [{} for _ in self.steps]
        for name, which, values in self.columns:
            if which is not None:
                for row, value in zip(which.tolist(), values.tolist()):
                    logged[row][name] = value
        times = (
            time if time == time else math.nan for time in self.times.tolist()
        )  # as a row has it that knows of none
        return map(Row, self.steps.tolist(), logged, times)


@runtime_checkable
class InPieces(Protocol):
    """The events of a long log, which can also be had as columns, piece by piece, in a fraction of the time."""

    def pieces(self) -> Iterator[Piece | Sequence[Row | Rewind]]:
        """The same events; those of which no columns were made as they are."""


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
        for first in range(begin, len(self), AT_ONCE // 2):
            part = slice(first, first + AT_ONCE // 2)
            steps, times = self.rows.steps[part].tolist(), self.rows.times[part].tolist()
            logged: list[dict[str, float]] = [{} for _ in steps]
            for name, points in self.points.items():
                own = slice(*np.searchsorted(points.rows, (first, first + len(steps))).tolist())
                for row, value in zip(points.rows[own].tolist(), points.values[own].tolist()):
                    logged[row - first][name] = value
            yield from map(Row, steps, logged, times)

    def stopped(self) -> list[tuple[str, int]]:
        """The names that came at nine in ten steps or more while they came, and then no more for a tenth of the run, with
        the last step of each: what a logger that writes NaN as `null` leaves of a loss that became one.

        >>> [Table.of([Row(s, {"lr": 1.0, **({"loss": 2.0} if s < 60 else {})}) for s in range(100)]).stopped()]
        [[('loss', 59)]]
        """
        least = max(STOPPED, len(self) / 10)
        found = []
        for name, points in self.points.items():
            first, last, count = int(points.rows[0]), int(points.rows[-1]), len(points.rows)
            if len(self) - 1 - last >= least and count >= max(STOPPED, 0.9 * (last - first + 1)):
                found.append((name, int(self.rows.steps[last])))
        return found

    @classmethod
    def of(cls, events: Iterable[Row | Rewind]) -> Table | None:
        """The columns of a run; None where it goes back, a point comes after its step has closed, or a name comes twice
        at one step: such a run is gone through step by step.

        >>> table = Table.of([Row(1, {"loss": 2.0}), Row(3, {"loss": 1.5, "lr": 0.1})])
        >>> table.rows.steps.tolist(), table.points["lr"].rows.tolist()
        ([1, 3], [1])
        """
        growing = GrowingTable()
        pieces = events.pieces() if isinstance(events, InPieces) else in_lists(events, AT_ONCE)
        return growing.table() if all(map(growing.add_piece, pieces)) else None


class GrowingTable:
    """The columns of the rows so far. Nothing is kept of each row: of so many small things the garbage collector would take
    as long as all the rest, and a long run would not fit."""

    def __init__(self) -> None:
        self._steps: list[Array] = []
        self._times: list[Array] = []
        self._count = 0
        """How many steps there are."""
        self.points = 0
        """How many numbers it holds."""
        self._newest: float = -math.inf
        self._parts: dict[str, list[tuple[Array, Array]]] = {}
        self._joined: dict[str, int] = {}
        """How many parts of each name are joined ones."""
        self._loose = 0
        self._first: dict[str, tuple[int, int]] = {}
        """Of each name the row in which it came first, and its place there."""
        self._seen = 0

    def add_piece(self, piece: Piece | Sequence[Row | Rewind]) -> bool:
        """Take in a piece of a log; False where it goes back."""
        if isinstance(piece, Piece):
            return self.add(piece.steps, piece.times, piece.columns)
        if any(issubclass(kind, Rewind) for kind in set(map(type, piece))):
            return False
        return not piece or self.add_rows(cast("Sequence[Row]", piece))

    def add_rows(self, rows: Sequence[Row]) -> bool:
        """Take some in; False where they go back."""
        count = len(rows)
        steps = np.fromiter(map(attrgetter("step"), rows), np.int64, count)
        times = np.fromiter(map(attrgetter("time"), rows), float, count)
        return self.add(steps, times, _columns_of([row.values for row in rows]))

    def add(self, steps: Array, times: Array, columns: Iterable[tuple[str, Array | None, Array]]) -> bool:
        """Take in rows of these steps and times: of each name which of them have a point, or None for all, and the values.
        Names that have it at the same ones, say so with the same array. False where they go back."""
        if (steps[1:] < steps[:-1]).any() or steps[0] < self._newest:
            return False
        begins = np.concatenate([[steps[0] > self._newest], steps[1:] > steps[:-1]])
        places = np.cumsum(begins) + (self._count - 1)
        placed: dict[int, tuple[Array, Array]] = {}
        for place, (name, which, values) in enumerate(columns):
            first = (self._seen + (0 if which is None else int(which[0])), place)
            self._first[name] = min(first, self._first.get(name, first))
            own = places if which is None else placed.setdefault(id(which), (which, places[which]))[1]
            self._parts.setdefault(name, []).append((own, values))
            self.points += len(values)
        self._steps.append(steps)
        self._times.append(times)
        self._count += int(begins.sum())
        self._newest = float(steps[-1])
        self._seen += len(steps)
        self._loose += 1
        if self._loose == JOINED:
            self._join()
        return True

    def _join(self) -> None:
        """Make one of each name's last parts: what is as large as that is given back to the system when it is let go of, of
        small ones a heap is left that nothing else fits into."""
        rows_of: dict[tuple[int, ...], Array] = {}
        for name, parts in self._parts.items():
            begin = self._joined.get(name, 0)
            loose = parts[begin:]
            if loose:
                key = tuple(id(rows) for rows, _ in loose)
                if key not in rows_of:
                    rows_of[key] = np.concatenate([rows for rows, _ in loose])
                parts[begin:] = [(rows_of[key], np.concatenate([values for _, values in loose]))]
                self._joined[name] = begin + 1
        self._steps[-JOINED:] = [np.concatenate(self._steps[-JOINED:])]
        self._times[-JOINED:] = [np.concatenate(self._times[-JOINED:])]
        self._loose = 0

    def table(self) -> Table | None:
        """All of it, once; None where a name comes twice at one step. Names that always come together share their rows."""
        points: dict[str, Points] = {}
        self.points = 0
        rows_of: dict[tuple[int, ...], tuple[Array, Array | None]] = {}
        for name in sorted(self._parts, key=self._first.__getitem__):
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


def in_lists(items: Iterable[Kept], size: int) -> Iterator[list[Kept]]:
    """Things in lists of so many.

    >>> list(in_lists("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


def _in_order(pieces: Sequence[Array]) -> tuple[Array, Array | None]:
    """Rows of all pieces, in order; in which order their values are then, None for their own."""
    rows = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
    if len(pieces) == 1 or (rows[1:] > rows[:-1]).all():
        return rows, None
    order = np.argsort(rows, kind="stable")
    return rows[order], order


def _columns_of(logged: Sequence[Mapping[str, float]]) -> Iterator[tuple[str, Array | None, Array]]:
    for kind, which, own in alike(logged):
        flat = chain.from_iterable(values.values() for values in own)
        values = np.fromiter(flat, float, len(own) * len(kind)).reshape(len(own), len(kind))
        for name, column in zip(kind, np.ascontiguousarray(values.T)):
            yield name, which, column


Alike = tuple[tuple[str, ...], "Array | None", Sequence[Mapping[str, Kept]]]
"""The names that rows have, in their order; which rows these are, None for all; and the rows."""


def alike(logged: Sequence[Mapping[str, Kept]]) -> Iterator[Alike[Kept]]:
    """The rows by the names in them. Most have the same ones, which is seen sooner than what they are: by their number,
    and all in one piece, since a thing a row would have the garbage collector go through all that there is."""
    sizes = np.fromiter(map(len, logged), np.int64, len(logged))
    for size in dict.fromkeys(sizes.tolist()):
        which = None if (sizes == size).all() else np.nonzero(sizes == size)[0]
        own = logged if which is None else [logged[row] for row in which.tolist()]
        names = tuple(own[0])
        if list(chain.from_iterable(own)) == list(names) * len(own):
            yield names, which, own
            continue
        places: dict[tuple[str, ...], list[int]] = {}
        for place, row in enumerate(own):
            places.setdefault(tuple(row), []).append(place)
        for names, found in places.items():
            part = np.array(found)
            yield names, part if which is None else which[part], [own[place] for place in found]
