"""A recorded run as columns: its closed steps, and of each logged name the rows at which it has a point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
        steps: list[int] = []
        times: list[float] = []
        alike: dict[tuple[str, ...], _Alike] = {}
        newest = -math.inf
        for event in events:
            if isinstance(event, Rewind) or event.step < newest:
                return None
            if event.step > newest:
                newest = event.step
                steps.append(event.step)
                times.append(event.time)
            elif event.time == event.time and not times[-1] >= event.time:
                times[-1] = event.time
            names = tuple(event.values)
            group = alike.get(names)
            if group is None:
                group = alike[names] = _Alike()
            group.rows.append(len(steps) - 1)
            group.values += event.values.values()
        points = _points(alike)
        if any((np.diff(of_name.rows) <= 0).any() for of_name in points.values()):
            return None
        return cls(Rows(np.array(steps, dtype=np.int64), _forward(times)), points)


class _Alike:
    """The rows that log the same names in the same order, and their values one row after the other."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.values: list[float] = []


def _points(alike: Mapping[tuple[str, ...], _Alike]) -> dict[str, Points]:
    """The points of each name, the names in the order in which they first come."""
    parts: dict[str, list[tuple[Array, Array]]] = {}
    for names, group in alike.items():
        rows = np.array(group.rows, dtype=np.int64)
        values = np.array(group.values, dtype=float).reshape(len(rows), len(names))
        for name, column in zip(names, values.T):
            parts.setdefault(name, []).append((rows, column))
    found = {}
    for name, pieces in parts.items():
        rows, values = (np.concatenate(part) for part in zip(*pieces))
        if len(pieces) > 1:
            order = np.argsort(rows, kind="stable")
            rows, values = rows[order], values[order]
        found[name] = Points(rows, values)
    return found


def _forward(times: list[float]) -> Array:
    """No step is before the one before it, and one without a time is at that of the one before."""
    given = np.array(times, dtype=float)
    return np.fmax.accumulate(given) if len(given) else given
