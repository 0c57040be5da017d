"""A run as its files on this disk tell it: rows and rewinds, from wherever an earlier reading stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitalsdsl.ground.errors import RunGone, SourceError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl_wandb.axis import Axis
from vitalsdsl_wandb.framing import Frames
from vitalsdsl_wandb.places import begun, label, order_of
from vitalsdsl_wandb.records import Decoder, Exit, HistoryRow, Producer, RunFacts, StepMetric, SystemStats
from vitalsdsl_wandb.rows import LEVEL

PIECE = 256 * 1024
"""How much of a file is taken into memory at once, in bytes."""

_BLOCKS_SINCE = (0, 18)
_TIMED_SINCE = (0, 31)


class LocalRun:
    """One run, read through its files in the order in which its processes began.

    Rows are those that `run.log` of the same process gave to rules. What W&B measures of the machine (`system.…`)
    counts at the next row, so that it makes no steps of its own. Where a later process of the run goes on at or below a
    step that an earlier one had reached, or says that it rewinds, the run went back.

    `files` gives the files that are there now. `live` also notes how late the file shows what is logged.
    """

    def __init__(
        self,
        files: Callable[[], Sequence[Path]],
        step_key: str | None = None,
        cursor: Mapping[str, Any] | None = None,
        live: bool = False,
    ) -> None:
        self.notes: list[str] = []
        self.rest = 0
        self._files = files
        self._live = live
        self._decoder = Decoder()
        state: Mapping[str, Any] = cursor or {}
        self._file: str | None = state.get("file")
        self._offset: int = state.get("offset", 0)
        self._torn: bool = state.get("torn", False)
        self._damage: int = state.get("damage", 0)
        self._newest: int = state.get("newest", -1)
        self._is_joint: bool = state.get("joint", False)
        self._knows_start: bool = state.get("knows_start", False)
        self._back_to: int | None = state.get("back_to")
        self._stats: dict[str, float] = dict(state.get("stats", {}))
        self._said: list[str] = list(state.get("said", []))
        self._version: str = state.get("version", "")
        self.is_over: bool = state.get("over", False)
        self._axis = Axis(step_key, self._say)
        if "axis" in state:
            self._axis.load(state["axis"])

    def cursor(self) -> dict[str, Any]:
        """Where reading goes on, and all that it needs."""
        return {
            "file": self._file,
            "offset": self._offset,
            "torn": self._torn,
            "damage": self._damage,
            "newest": self._newest,
            "joint": self._is_joint,
            "knows_start": self._knows_start,
            "back_to": self._back_to,
            "stats": self._stats,
            "said": self._said,
            "version": self._version,
            "over": self.is_over,
            "axis": self._axis.save(),
        }

    def read(self) -> Iterator[list[Row | Rewind]]:
        """What has come since, up to what is written now; the events of one record at a time.

        `cursor` is right after each of them. Raises SourceError where a file is none of W&B's or of a version that is
        not known, RunGone where the file is gone, OSError.
        """
        while True:
            files = self._files()
            file = self._current(files)
            if file is None:
                return
            yield from self._read(file)
            later = [one for one in files if order_of(label(one)) > order_of(label(file)) and begun(one)]
            if not later:
                return
            self._go_on_in(label(later[0]))

    def _current(self, files: Sequence[Path]) -> Path | None:
        if self._file is None:
            if files:
                self._file = label(files[0])
                return files[0]
            return None
        for file in files:
            if label(file) == self._file:
                return file
        later = [file for file in files if order_of(label(file)) > order_of(self._file)]
        if not later:
            raise RunGone(f"`{self._file}` is there no longer")
        self._go_on_in(label(later[0]))
        return later[0]

    def _go_on_in(self, name: str) -> None:
        self._file, self._offset, self._torn = name, 0, False
        self._is_joint, self._knows_start, self.is_over = True, False, False

    def _read(self, file: Path) -> Iterator[list[Row | Rewind]]:
        frames = Frames(label(file), self._offset, self._torn)
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            if size < self._offset and not self._torn:
                raise SourceError(f"`{frames.name}` is shorter than what was read of it: it has been replaced")
            stream.seek(self._offset)
            while piece := stream.read(PIECE):
                for record in frames.feed(piece):
                    events = self._take(record)
                    self._mark(frames)
                    if events:
                        yield events
                self._mark(frames)
        self.rest = frames.waiting

    def _mark(self, frames: Frames) -> None:
        self._offset, self._torn = frames.offset, frames.torn
        if frames.damage:
            self._lose(frames.damage)
            frames.damage = 0

    def _lose(self, blocks: int) -> None:
        self._damage += blocks
        known = "; W&B 0.17.0 to 0.17.5 wrote such files itself" if self._version.startswith("0.17.") else ""
        self.notes.append(
            f"`{self._file}` is damaged: bad blocks: {self._damage}; what was logged in the rest of each (32 KiB at "
            f"most) is lost{known}"
        )

    def _take(self, data: bytes) -> list[Row | Rewind]:
        try:
            record = self._decoder.decode(data)
        except ValueError:
            self._lose(1)
            return []
        if isinstance(record, HistoryRow):
            return self._row(record)
        if isinstance(record, SystemStats):
            self._stats.update(record.values)
        elif isinstance(record, StepMetric):
            self._axis.define(record.pattern, record.step_metric)
        elif isinstance(record, RunFacts):
            self._start(record)
        elif isinstance(record, Exit):
            self.is_over = True
        elif isinstance(record, Producer):
            self._version = record.version
            if self._live:
                self._say_how_late()
        return []

    def _start(self, facts: RunFacts) -> None:
        """The run as its process begins; W&B writes it anew whenever something of it changes."""
        if self._knows_start:
            return
        self._knows_start = True
        if self._is_joint:
            self._back_to = facts.back_to
        # Where W&B counts on, should it leave the counting to whoever reads.
        if facts.back_to is not None:
            self._newest = facts.back_to
        elif facts.first_step or not facts.resumes:
            self._newest = facts.first_step - 1

    def _row(self, row: HistoryRow) -> list[Row | Rewind]:
        own = self._newest + 1 if row.step is None else row.step
        row.values.pop(LEVEL, None)
        events: list[Row | Rewind] = []
        back = self._back(row.values, own)
        if back is not None:
            events.append(Rewind(back))
            self._axis.rewind(back)
        step = self._axis.step(row.values, own)
        self._newest = own
        values = row.values
        if self._stats:
            values = {**self._stats, **values}
            self._stats = {}
        events.append(Row(step, values, row.time))
        return events

    def _back(self, values: Mapping[str, float], own: int) -> int | None:
        """The step that the run went back to between its last process and this row, which is an early one of the next."""
        if not self._is_joint:
            return None
        newest = self._axis.newest
        at = own if self._axis.key is None else self._axis.value(values)
        if at is None:
            return None  # the step of the axis is not known yet
        self._is_joint = False
        told, self._back_to = self._back_to, None
        if newest is None:
            return None
        if self._axis.key is None and told is not None and told < newest:
            return min(told, at - 1)
        return at - 1 if at <= newest else None

    def _say_how_late(self) -> None:
        release = _release(self._version)
        if release is None or release < _BLOCKS_SINCE:
            return
        if release < _TIMED_SINCE:
            self._say(
                "late",
                f"W&B {self._version} writes this file in blocks of 32 KiB: rows show late, those of a script that logs "
                "little by hours; attach the policy in the training process for prompt rules",
            )
        else:
            self._say(
                "late",
                "W&B writes this file every 15 s; with WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL=1 in the environment of "
                "the training, every second",
            )

    def _say(self, word: str, text: str) -> None:
        if word not in self._said:
            self._said.append(word)
            self.notes.append(text)


def _release(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return int(parts[0]), int(parts[1])
