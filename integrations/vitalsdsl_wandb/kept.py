"""What the service kept of a run, row by row, as what rules see: events at a step."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vitalsdsl.ground.points import Rewind, Row, number
from vitalsdsl_wandb.axis import Axis
from vitalsdsl_wandb.progress import Mark, Progress
from vitalsdsl_wandb.rows import flatten

_OWN = frozenset({"_step", "_runtime", "_timestamp", "_wandb"})
_MOST_KINDS = 32


class KeptRow(NamedTuple):
    """One row: W&B's step, unix seconds (None: not known), and what was logged."""

    step: int
    time: float | None
    data: dict[str, Any]


def parse_rows(lines: Sequence[Any], first: int) -> tuple[list[KeptRow], int, dict[int, list[float | None]]]:
    """The rows of a page by their steps, the first of each step; how many lines could not be read; the times of all
    rows at each step.

    A row that has no `_step` is taken for the one after the row before; `first` is the step that was asked for.
    """
    rows: dict[int, KeptRow] = {}
    times: dict[int, list[float | None]] = {}
    bad, step = 0, first - 1
    for line in lines:
        try:
            row = json.loads(line) if isinstance(line, str) else line
        except ValueError:
            row = None
        if not isinstance(row, dict):
            bad += 1
            continue
        own = number(row.get("_step"))
        step = int(own) if own is not None and math.isfinite(own) else step + 1
        time = number(row.get("_timestamp"))
        known = time if time is not None and math.isfinite(time) else None
        times.setdefault(step, []).append(known)
        rows.setdefault(step, KeptRow(step, known, _without_own(row)))
    return [rows[step] for step in sorted(rows)], bad, times


def _without_own(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the script logged: no counters of W&B's own, and no parts of media where they come flat (`img._type`)."""
    media = tuple(name[: -len("_type")] for name in row if name.endswith("._type"))
    return {name: x for name, x in row.items() if name not in _OWN and not (media and name.startswith(media))}


def axis_steps(rows: Sequence[KeptRow], key: str | None) -> list[int]:
    """The steps that rows name: on the axis where there is one, else W&B's. Rows that name none are passed over."""
    named = [row.step if key is None else number(flatten(row.data).get(key)) for row in rows]
    return [int(x) for x in named if x is not None and math.isfinite(x)]


class KeptRows:
    """Turns the rows of a run, in their order, into events, and moves the progress on; `settle` after the last.

    A trainer that was resumed at an older checkpoint logs an axis that goes back. That is a rewind to just before it
    where the same kind of row (the same names) had come further already; a late evaluation is none, and counts as late.
    """

    def __init__(self, progress: Progress, step_key: str | None, definitions: Sequence[tuple[str, str]]) -> None:
        self._progress = progress
        self.events: list[Row | Rewind] = []
        self.notes: list[str] = []
        self.points = 0
        self._axis = Axis(step_key, self._say)
        if progress.axis:
            self._axis.load(progress.axis)
        else:
            for definition in definitions:
                self._axis.define(*definition)

    def give(self, row: KeptRow) -> None:
        """One row that has not been given yet."""
        progress, axis = self._progress, self._axis
        values = flatten(row.data)
        self.rewind_before(row.step)
        if row.step < progress.next:
            named = row.step if axis.key is None else axis.value(values)
            step = named if named is not None else axis.newest or 0
        else:
            if axis.key is not None:
                self._follow(values)
            step = axis.step(values, row.step)
            if axis.key is not None:
                self._note_kind(values, step)
        self.events.append(Row(step, values, math.nan if row.time is None else row.time))
        self.points += max(1, len(values))
        progress.add(Mark(row.step, row.time, step, progress.count))

    def settle(self) -> None:
        """Keep in the progress what going on needs of the axis."""
        self._progress.axis = self._axis.save()

    def rewind_before(self, step: float) -> None:
        """Give the rewinds of an earlier reading that came before one of W&B's steps."""
        for at in self._progress.take_due(step):
            self.events.append(Rewind(at))
            self._axis.rewind(at)
            self._progress.kinds = {kind: min(reach, at) for kind, reach in self._progress.kinds.items()}
            self.settle()

    def _follow(self, values: Mapping[str, float]) -> None:
        """Whether the trainer went back to an older checkpoint."""
        at = self._axis.value(values)
        before = self._progress.kinds.get(_kind(values), -math.inf)
        if at is None or before <= at or self._progress.is_anew:
            return
        self.events.append(Rewind(at - 1))
        text = f"`{self._axis.key}` goes back (from {before} to {at}): read as a resume, which replaces those steps"
        self._say("back", text)
        self._axis.rewind(at - 1)
        self._progress.rewound(at - 1)

    def _note_kind(self, values: Mapping[str, float], step: int) -> None:
        kinds = self._progress.kinds
        kind = _kind(values)
        kinds[kind] = max(kinds.pop(kind, step), step)
        while len(kinds) > _MOST_KINDS:
            del kinds[next(iter(kinds))]

    def _say(self, word: str, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _kind(values: Mapping[str, float]) -> str:
    return f"{zlib.crc32(chr(0).join(sorted(values)).encode('utf-8', 'replace')):08x}"
