"""The checkpoints that a trainer makes of its own: what is known of each lies beside it, and no healthy one is lost."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitalsdsl_torch.durable import json_bytes, write
from vitalsdsl_torch.ring import HEALTHY, PROBATION, SUSPECT, TAKEN_BACK

logger = logging.getLogger("vitalsdsl")

NOTE = "vitals.json"
"""The name of what is written about a checkpoint; of one that is a file, this is added to its name."""

UNFIT = frozenset({SUSPECT, TAKEN_BACK})
"""What is known of those that nobody should go on from, or take for the best, without being told."""


@dataclass
class Known:
    """A checkpoint of a trainer: the state after a step of an attempt, and what is known of it."""

    path: Path
    step: int
    attempt: int
    state: str


class Adopted:
    """The checkpoints of a trainer in a run. `health` says of a step and an attempt what is known now.

    It is written into `vitals.json` in the checkpoint's folder, or beside its file, and again when it changes.
    """

    def __init__(self, run: str, health: Callable[[int, int], str]) -> None:
        self._run = run
        self._health = health
        self._known: dict[Path, Known] = {}

    def add(self, path: Path, step: int, attempt: int) -> None:
        """The trainer has just made one."""
        if path.exists():
            self._known[path] = Known(path, step, attempt, "")
            self.settle()

    def find(self, paths: Iterable[Path]) -> None:
        """Take in those of an earlier process of this run."""
        for path in paths:
            said = _said(path)
            with contextlib.suppress(KeyError, TypeError):
                if said["run"] == self._run:
                    self._known[path] = Known(path, int(said["step"]), int(said["attempt"]), str(said["state"]))

    def state(self, path: str | Path) -> str:
        """What is known of a checkpoint; nothing of one that was made without a guard."""
        known = self._known.get(Path(path))
        return known.state if known is not None else ""

    @property
    def states(self) -> dict[str, str]:
        """What is known of each, by its path."""
        return {str(one.path): one.state for one in self._known.values()}

    def settle(self) -> bool:
        """See what is known of each now, and write down what has changed: whether anything has."""
        changed = False
        for one in list(self._known.values()):
            if not one.path.exists():
                self.forget(one.path)
                continue
            state = self._health(one.step, one.attempt)
            if state == one.state:
                continue
            one.state, changed = state, True
            about = {"version": 1, "run": self._run, "step": one.step, "attempt": one.attempt, "state": state}
            try:
                write(note_of(one.path), json_bytes(about))
            except OSError as error:
                logger.warning("vitals: %s cannot be written (%s)", note_of(one.path), error.strerror or error)
        return changed

    def taken_back(self) -> list[Known]:
        return [one for one in self._known.values() if one.state == TAKEN_BACK]

    def worth_keeping(self) -> set[Path]:
        """The newest healthy one, and the next that may become so: the oldest in probation behind it."""
        line = sorted(self._known.values(), key=lambda one: one.step)
        healthy = [one for one in line if one.state == HEALTHY]
        waiting = [one for one in line if one.state == PROBATION]
        return {one.path for one in [*healthy[-1:], *waiting[:1]]}

    def victims(self, paths: Iterable[Path], limit: int, kept: Collection[Path]) -> list[Path]:
        """Which of the paths, given from the oldest to the newest, are to go so that `limit` stay. The newest is not among
        them, nor any in `kept` or worth keeping, even if more than `limit` stay then. What was taken back goes first,
        then what is suspect, the youngest of them first, then the oldest."""
        line = list(paths)
        safe = {*kept, *line[-1:], *self.worth_keeping()}
        free = [path for path in line if path not in safe]
        rank = {TAKEN_BACK: 0, SUSPECT: 1}
        order = sorted(enumerate(free), key=lambda x: (at := rank.get(self.state(x[1]), 2), -x[0] if at == 1 else x[0]))
        return [path for _, path in order[: max(0, len(line) - max(limit, 1))]]

    def remove(self, path: Path) -> None:
        self.forget(path)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def forget(self, path: Path) -> None:
        """It has gone, or is to be known by another name."""
        self._known.pop(path, None)
        if not path.is_dir():
            note_of(path).unlink(missing_ok=True)

    def rename(self, one: Known, path: Path) -> None:
        """Give one another name. Raises OSError."""
        note = note_of(one.path) if not one.path.is_dir() else None
        one.path.rename(path)
        if note is not None:
            note.rename(note_of(path))
        del self._known[one.path]
        one.path = path
        self._known[path] = one


def note_of(path: Path) -> Path:
    """Where it is written what is known of a checkpoint."""
    return path / NOTE if path.is_dir() else path.with_name(f"{path.name}.{NOTE}")


def state_in(path: Path) -> str:
    """What was last written about a checkpoint, by whatever process; nothing where that was nothing."""
    return str(_said(path).get("state", ""))


def _said(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(note_of(path).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
