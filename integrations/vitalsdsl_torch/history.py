"""What has been done to a run: a file beside its checkpoints, never one of them, so that going back forgets nothing."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitalsdsl_torch.durable import sync

logger = logging.getLogger("vitalsdsl")

Record = Mapping[str, Any]
OVER = frozenset({"done", "failed", "rejected"})
"""The answers after which nothing more is done about a request."""


@dataclass(frozen=True)
class Turn:
    """The run went back to the state after `step` updates: a rollback, or a restart that had lost some.

    `position` is where its data goes on, `since` the position of the checkpoint: what lies between is not in the model.
    `trip_step` is where the trouble was, `tripped_at` where the data was then, and `drawn` where it was when the run went
    back. `lived` is how many updates had been made in all attempts, `ladder` how often it has gone back for the same
    trouble (0 where the run was restarted).
    """

    attempt: int
    step: int
    checkpoint: str
    request: str
    since: int
    position: int
    tripped_at: int
    trip_step: int
    factor: float
    lived: int
    ladder: int
    drawn: int = 0

    @property
    def passed_over(self) -> int:
        """How many batches are not in the model and never were."""
        return max(0, self.position - max(self.drawn, self.tripped_at))

    @property
    def is_rollback(self) -> bool:
        return self.ladder > 0


@dataclass
class Incident:
    """A rule that is not green: from its onset to the step at which it was green again, None as long as it is open."""

    rule: str
    attempt: int
    onset: int
    until: int | None = None


class History:
    """The requests that were answered, the turns of the run, the marks on its checkpoints, its incidents.

    `asked` are the requests of the run's own policy, `begun` how often each was begun, `carried_out` those whose effect
    stands in it, whatever was answered; `version` changes with each record.

    One JSON line each, on disk before anything is done about it. A line that was cut off is passed over: what it should
    have said had not been begun. `append` raises OSError where the disk takes nothing; `note` only says so.
    """

    def __init__(self, path: Path) -> None:
        self.attempt = 0
        self.factor = 1.0
        self.asked: dict[str, Record] = {}
        self.begun: Counter[str] = Counter()
        self.answers: dict[str, Record] = {}
        self.turns: list[Turn] = []
        self.marks: dict[str, str] = {}
        self.pinned: set[str] = set()
        self.incidents: list[Incident] = []
        self.is_paused = False
        self.carried_out: set[str] = set()
        self.version = 0
        self._path = path
        self._torn = False
        self._complained = False
        is_new = not path.exists()
        data = b"" if is_new else path.read_bytes()
        self._torn = bool(data) and not data.endswith(b"\n")
        damaged = sum(not self._read(line) for line in data.splitlines())
        if damaged:
            lines = "a damaged line" if damaged == 1 else f"{damaged} damaged lines"
            logger.warning("vitals: %s of %s passed over", lines, f"{path} {'is' if damaged == 1 else 'are'}")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if is_new:
            sync(path.parent)

    @property
    def rollbacks(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.is_rollback]

    @property
    def skipped(self) -> list[tuple[int, int]]:
        """The stretches of batches, first and end, that are not in the model and never will be: trained and taken back,
        or passed over."""
        return [(turn.since, turn.position) for turn in self.rollbacks if turn.position > turn.since]

    @property
    def went_back_to(self) -> int | None:
        """From which step the run has gone on since its newest rollback, None where there was none: the one that it went
        back to, or an earlier one where a restart could not go on from there."""
        found = None
        for turn in self.turns:
            found = turn.step if turn.is_rollback else min(found, turn.step) if found is not None else None
        return found

    @property
    def unfinished(self) -> list[str]:
        """Requests of which a process that ended did not say what became."""
        known = [*self.asked, *(id_ for id_ in self.answers if id_ not in self.asked)]
        return [id_ for id_ in known if id_ not in self.answers or self.answers[id_]["state"] not in OVER]

    def is_on_line(self, attempt: int, step: int) -> bool:
        """Whether the state after a step of an attempt is one that led to the present: no turn went back behind it."""
        return all(step <= turn.step for turn in self.turns if turn.attempt > attempt)

    def append(self, record: Record) -> None:
        """Write a record down to the disk and take it in. Raises OSError; then nothing is taken in."""
        data = json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"
        rest = b"\n" + data if self._torn else data
        while rest:
            written = os.write(self._file, rest)
            rest = rest[written:]
            self._torn = bool(rest)
        os.fsync(self._file)
        self._apply(record)

    def note(self, record: Record) -> None:
        """The same for what is no decision: where the disk takes nothing it holds for this process only."""
        try:
            self.append(record)
        except OSError as error:
            self._apply(record)
            if not self._complained:
                self._complained = True
                logger.warning("vitals: %s cannot be written (%s)", self._path, error.strerror or error)

    def close(self) -> None:
        os.close(self._file)

    def _read(self, line: bytes) -> bool:
        """Take in a line; whether it is one of ours."""
        try:
            self._apply(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        return True

    def _apply(self, record: Record) -> None:
        kind = record["type"]
        self.version += 1
        if kind in ("turn", "factor", "paused", "resumed"):
            self.carried_out.add(record["request"])
        if kind == "asked":
            self.asked[record["request"]["id"]] = record["request"]
        elif kind == "answer":
            self.answers[record["id"]] = {"state": record["state"], **record}
            self.begun[record["id"]] += record["state"] == "executing"
        elif kind == "turn":
            # What older versions have written says less.
            fields = {name: record[name] for name in Turn.__dataclass_fields__ if name in record}
            self.turns.append(Turn(**fields))
            self.attempt, self.factor = record["attempt"], record["factor"]
        elif kind == "mark":
            self.marks[record["checkpoint"]] = record["state"]
        elif kind == "pin":
            self.pinned.add(record["checkpoint"])
        elif kind == "factor":
            self.factor = record["factor"]
        elif kind == "incident":
            self.incidents.append(Incident(record["rule"], record["attempt"], record["onset"]))
        elif kind == "over":
            for incident in self.open_incidents:
                if incident.rule == record["rule"]:
                    incident.until = record["step"]
        elif kind in ("paused", "resumed"):
            self.is_paused = kind == "paused"

    @property
    def open_incidents(self) -> list[Incident]:
        """Those that are not over, and did not begin on steps that were taken back."""
        return [i for i in self.incidents if i.until is None and self.is_on_line(i.attempt, i.onset)]
