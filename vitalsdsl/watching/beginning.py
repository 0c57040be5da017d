"""The beginning of a run that is far behind: its rows are judged together, as columns, and a stream goes on after them.

Step by step a watcher that finds a hundred runs of a hundred thousand steps would be busy for hours; whole columns take a
fraction of that, and come to the same transitions and the same state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from operator import lt
from typing import TYPE_CHECKING

from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl.watching.feeds import Cursor

if TYPE_CHECKING:
    from vitalsdsl.columns.batch import Batch
    from vitalsdsl.nodes.table import GrowingTable, Table

MUCH = 1_000
"""From so many rows on they are judged together."""

MOST = 4_000_000
"""So many numbers of one run are held at once, eight bytes each. What comes after them is judged step by step."""


class Together:
    """The beginnings of many runs, one after the other in a thread of its own: so the memory that this takes is that of one
    run, and what is made for one serves the next. For any thread."""

    def __init__(self) -> None:
        self._batches: dict[str, Batch] = {}
        self._worker = ThreadPoolExecutor(1, "vitals-together")

    def caught_up(
        self, policy: LoadedPolicy, table: Table, new: Callable[[], Stream]
    ) -> tuple[Stream, list[Transition]]:
        """A stream that stands after the rows of a table, and what it would have said of them."""
        return self._worker.submit(self._caught_up, policy, table, new).result()

    def _caught_up(
        self, policy: LoadedPolicy, table: Table, new: Callable[[], Stream]
    ) -> tuple[Stream, list[Transition]]:
        # Loaded only here: with it comes NumPy, and many a watcher meets no run that is far behind.
        if policy.digest not in self._batches:
            self._batches[policy.digest] = import_module("vitalsdsl.columns.batch").Batch(policy.policy, policy.digest)
        return self._batches[policy.digest].caught_up(table, new)

    def close(self) -> None:
        """Give back what is open."""
        self._worker.shutdown()


class Beginning:
    """The rows of one run from its first one on, as far as they only go forward. The step that came last stays open: its
    rows are told apart, and so is one at which a name comes twice."""

    def __init__(self, together: Together, policy: LoadedPolicy, new: Callable[[], Stream]) -> None:
        self.cursor: Cursor | None = None
        """Where reading goes on. No bookmark has it before the rows have been judged."""
        self._together = together
        self._policy = policy
        self._new = new
        self._columns: GrowingTable = import_module("vitalsdsl.nodes.table").GrowingTable()
        self._open: list[Row] = []
        self._newest_time = math.nan

    @property
    def is_full(self) -> bool:
        """Whether no more should be taken in, so as to spare memory."""
        return self._columns.points >= MOST

    @property
    def newest_time(self) -> float:
        """The latest time of its rows; NaN where they have none."""
        return self._newest_time

    def take(self, events: Sequence[Row | Rewind]) -> int:
        """Take as many in as there are before one that does not go forward."""
        rows: list[Row] = []
        for event in events:
            if not isinstance(event, Row):
                break
            rows.append(event)
        known = len(self._open)
        rows = self._forward([*self._open, *rows])
        if not rows:
            return 0
        times = [row.time for row in rows if row.time == row.time]
        if times:
            self._newest_time = max(times) if self._newest_time != self._newest_time else max(self._newest_time, *times)
        last = rows[-1].step
        end = next(at for at in range(len(rows), 0, -1) if at == 1 or rows[at - 2].step != last) - 1
        if end:
            self._columns.add_rows(rows[:end])
        self._open = rows[end:]
        return len(rows) - known

    def judged(self) -> tuple[Stream, list[Transition], int]:
        """A stream that has been given all its rows, what it said of them, and how many steps have closed. Once only."""
        table = self._columns.table()
        assert table is not None  # a step at which a name comes twice is not taken in
        if len(table):
            stream, said = self._together.caught_up(self._policy, table, self._new)
        else:
            stream, said = self._new(), []
        for row in self._open:
            said += stream.push_row(row)
        return stream, said, len(table)

    @staticmethod
    def _forward(rows: list[Row]) -> list[Row]:
        """Those before the first that goes back, or has a name that its step has already."""
        steps = [row.step for row in rows]
        if all(map(lt, steps, steps[1:])):
            return rows
        names: set[str] = set()
        for at, row in enumerate(rows):
            if at and row.step != rows[at - 1].step:
                names = set()
            if at and row.step < rows[at - 1].step or not names.isdisjoint(row.values):
                return rows[:at]
            names.update(row.values)
        return rows
