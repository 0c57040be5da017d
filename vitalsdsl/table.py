"""A recorded run as columns: its closed steps, and of each logged name the rows at which it has a point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from vitalsdsl.kernels.columns import Rows
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.points import Rewind, Row


@dataclass(frozen=True)
class Table:
    """One run that only goes forward: `rows` are its closed steps, `points` what each name logged at them."""

    rows: Rows
    points: Mapping[str, Points]

    def __len__(self) -> int:
        return len(self.rows)

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
        at: dict[str, list[int]] = {}
        found: dict[str, list[float]] = {}
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
            row = len(steps) - 1
            for name, value in event.values.items():
                places = at.get(name)
                if places is None:
                    at[name], found[name] = [row], [value]
                elif places[-1] == row:
                    return None
                else:
                    places.append(row)
                    found[name].append(value)
        names = {name: Points(np.array(at[name], dtype=np.int64), np.array(found[name], dtype=float)) for name in at}
        return cls(Rows(np.array(steps, dtype=np.int64), _forward(times)), names)


def _forward(times: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """No step is before the one before it, and one without a time is at that of the one before."""
    given = np.array(times, dtype=float)
    return np.fmax.accumulate(given) if len(given) else given
