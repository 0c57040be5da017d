"""What reading a log gives: one run, as its rows and rewinds in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from vitalsdsl.points import Rewind, Row, RunInfo


@dataclass(frozen=True)
class Recording:
    """One recorded run.

    `events` can be gone through again and again, except those of a pipe, which are there once. They are held in memory
    for a small log and read again from the file for a big one. Where they are read as they come (a pipe, a big file of
    canonical JSON lines), what is wrong far into the log shows only then: a `SourceError` may come out of `events`, and
    further notes are in `late_notes` once they are at their end.
    """

    info: RunInfo
    events: Iterable[Row | Rewind]
    late_notes: list[str] = field(default_factory=list)
