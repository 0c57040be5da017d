"""What a stream keeps of its past, so that its run may go back: the points of its steps, and snapshots between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SNAPSHOT_EVERY = 1_000
KEPT_SNAPSHOTS = 4


class OpenStep:
    """A step and what has come for it, by logged name. It is open until it closes, and kept after that."""

    __slots__ = ("_values", "began", "plain", "repeats", "step", "time")

    def __init__(self, step: int, began: float = math.nan, plain: dict[str, float] | None = None) -> None:
        self.step = step
        self.began = began
        self.time = math.nan
        self.plain = plain
        """Its values, where all are of this step and none came twice; None where that is not so."""
        self.repeats: dict[str, list[float]] = {}
        self._values: dict[str, tuple[float, int]] = {}

    @property
    def values(self) -> dict[str, tuple[float, int]]:
        """By logged name the value and its own step."""
        plain = self.plain
        if plain is not None:
            self.plain = None
            self._values = {name: (value, self.step) for name, value in plain.items()}
        return self._values

    def extend(self, values: Mapping[str, float], time: float) -> None:
        """More points of this very step."""
        plain = self.plain
        if plain is None or not plain.keys().isdisjoint(values):
            for name, value in values.items():
                self.add(name, value, self.step, time)
            return
        plain.update(values)
        if values and time == time and not self.time >= time:
            self.time = time

    def add(self, name: str, value: float, own_step: int, time: float) -> None:
        """A point that counts at this step. Where one of its name has come, what becomes of both is the metric's affair."""
        if time == time and not self.time >= time:
            self.time = time
        before = self.values.get(name)
        if before is not None:
            self.repeats.setdefault(name, [before[0]]).append(value)
        self._values[name] = (value, own_step)


@dataclass(frozen=True)
class Snapshot:
    """All that a stream remembered at the close of a step."""

    step: int
    state: dict[str, Any]


class History:
    """The closed steps since the oldest snapshot, and the snapshots: all of them or the newest few."""

    def __init__(self, keep_all: bool) -> None:
        self._keep_all = keep_all
        self._rows: list[OpenStep] = []
        self._snapshots: list[Snapshot] = []
        self._since = 0
        self._from_start = True
        """Whether every step from the first one on is there."""

    def add(self, row: OpenStep) -> None:
        self._rows.append(row)
        self._since += 1

    @property
    def wants_snapshot(self) -> bool:
        return self._since >= SNAPSHOT_EVERY

    def take(self, snapshot: Snapshot) -> None:
        """Keep a snapshot at the newest step, and no more than is needed of what lies before the oldest."""
        self._since = 0
        self._snapshots.append(snapshot)
        if not self._keep_all and len(self._snapshots) > KEPT_SNAPSHOTS:
            del self._snapshots[0]
            oldest = self._snapshots[0].step
            self._rows = [row for row in self._rows if row.step > oldest]
            self._from_start = False

    def begin_at(self, snapshot: Snapshot) -> None:
        """What lies before this step is not known."""
        self._rows, self._snapshots, self._since, self._from_start = [], [snapshot], 0, False

    def up_to(self, step: int) -> History | None:
        """As it was when this step had closed; None where it does not reach so far back."""
        past = History(self._keep_all)
        past._rows = [row for row in self._rows if row.step <= step]
        past._snapshots = [snapshot for snapshot in self._snapshots if snapshot.step <= step]
        past._from_start = self._from_start
        return past if past._snapshots or past._from_start else None

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot."""
        return self._snapshots[-1] if self._snapshots else None

    def after(self, snapshot: Snapshot | None) -> Iterator[OpenStep]:
        """The steps after a snapshot; without one all."""
        return (row for row in self._rows if snapshot is None or row.step > snapshot.step)
