"""A recorded run as columns: its closed steps, and of each logged name the rows at which it has a point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import cast

import numpy as np

from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.points import Rewind, Row


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

    @classmethod
    def of(cls, events: Iterable[Row | Rewind]) -> Table | None:
        """The columns of a run; None where it goes back, a point comes after its step has closed, or a name comes twice
        at one step: such a run is gone through step by step.

        >>> table = Table.of([Row(1, {"loss": 2.0}), Row(3, {"loss": 1.5, "lr": 0.1})])
        >>> table.rows.steps.tolist(), table.points["lr"].rows.tolist()
        ([1, 3], [1])
        """
        events = list(events)
        if any(issubclass(kind, Rewind) for kind in set(map(type, events))):
            return None
        rows = cast("list[Row]", events)
        count = len(rows)
        steps = np.fromiter(map(attrgetter("step"), rows), np.int64, count)
        times = np.fromiter(map(attrgetter("time"), rows), float, count)
        if (steps[1:] < steps[:-1]).any():
            return None
        begins = np.concatenate([np.ones(min(count, 1), bool), steps[1:] > steps[:-1]])
        points = _points([row.values for row in rows], np.cumsum(begins) - 1)
        if any((of_name.rows[1:] <= of_name.rows[:-1]).any() for of_name in points.values()):
            return None
        if count and not begins.all():
            times = np.fmax.reduceat(times, np.nonzero(begins)[0])
        return cls(Rows(steps[begins], np.fmax.accumulate(times) if count else times), points)


def _points(logged: Sequence[Mapping[str, float]], rows: Array) -> dict[str, Points]:
    """The points of each name, the names in the order in which they first come; `rows` are those at which they come."""
    # Nothing is kept of each row: of so many small things the garbage collector would take as long as all the rest.
    kinds = list(dict.fromkeys(map(tuple, logged)))
    parts: dict[str, list[tuple[Array, Array]]] = {}
    for kind, places in _alike(logged, kinds):
        own, own_rows = (logged, rows) if places is None else ([logged[place] for place in places], rows[places])
        flat = chain.from_iterable(values.values() for values in own)
        values = np.fromiter(flat, float, len(own) * len(kind)).reshape(len(own), len(kind))
        for name, column in zip(kind, values.T):
            parts.setdefault(name, []).append((own_rows, np.ascontiguousarray(column)))
    found = {}
    for name, pieces in parts.items():
        of_name, values = (np.concatenate(part) if len(pieces) > 1 else part[0] for part in zip(*pieces))
        if len(pieces) > 1:
            order = np.argsort(of_name, kind="stable")
            of_name, values = of_name[order], values[order]
        found[name] = Points(of_name, values)
    return found


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
