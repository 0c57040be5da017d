"""Runs of W&B on this disk as recordings: what `vitals replay POLICY wandb:PATH` reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from vitalsdsl.ground.errors import RunGone, SourceError
from vitalsdsl.ground.points import Rewind, Row, RunInfo, planned_steps
from vitalsdsl.runs.sources import Recording
from vitalsdsl_wandb import places
from vitalsdsl_wandb.local import LocalRun

HELD = 1_000_000
"""How many values of all runs together are held in memory, so that a file is read but once."""


def read(path: str, *, step_key: str | None = None) -> list[Recording]:
    """The runs behind a `.wandb` file, the folder of a run, or a `wandb` folder, the run that began first first.

    Of a run that was resumed all files that lie beside each other are read. A file that breaks off, as that of a killed
    process does, is read up to there. Raises SourceError where there is no run, with the reason.
    """
    place = Path(path).expanduser()
    try:
        runs = places.by_run(places.files_at(place))
        recordings: list[Recording] = []
        skipped: list[str] = []
        room = HELD
        for run_id, files in runs.items():
            try:
                recording, held = _recording(run_id, files, step_key, room)
            except SourceError as problem:
                skipped.append(str(problem))
                continue
            recordings.append(recording)
            room -= held
    except OSError as problem:
        raise SourceError(f"`{path}` cannot be read: {(problem.strerror or str(problem)).lower()}") from problem
    if not recordings:
        raise SourceError(skipped[0] if skipped else f"no run of W&B lies in `{path}`")
    if skipped:
        first = recordings[0]
        more = f"; and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        notes = (*first.info.notes, f"left out: {'; '.join(skipped[:5])}{more}")
        recordings[0] = replace(first, info=replace(first.info, notes=notes))
    return recordings


def _recording(run_id: str, files: Sequence[Path], step_key: str | None, room: int) -> tuple[Recording, int]:
    """A run, and how many of its values are held."""
    run = LocalRun(lambda: files, step_key)
    held: list[Row | Rewind] = []
    count = 0
    is_whole = True
    for events in run.read():
        held += events
        count += sum(1 if isinstance(event, Rewind) else 1 + len(event.values) for event in events)
        if count > room:
            is_whole = False
            break
    if not held:
        raise SourceError(f"`{places.label(files[-1])}` has no rows")
    notes = _notes(run, files, is_whole)
    facts = places.facts(files[0])
    total_steps, title = (planned_steps(facts.config), facts.title) if facts is not None else (math.nan, "")
    info = RunInfo(run_id, total_steps, notes=tuple(notes), title=title)
    if is_whole:
        return Recording(info, tuple(held)), count
    late: list[str] = []
    return Recording(info, _Anew(partial(_events, files, step_key, notes, late)), late), 0


@dataclass(frozen=True)
class _Anew:
    """Events that are read anew each time they are gone through."""

    begin: partial[Iterator[Row | Rewind]]

    def __iter__(self) -> Iterator[Row | Rewind]:
        return self.begin()


def _events(
    files: Sequence[Path], step_key: str | None, said: Sequence[str], late: list[str]
) -> Iterator[Row | Rewind]:
    run = LocalRun(lambda: files, step_key)
    try:
        for events in run.read():
            yield from events
    except (OSError, RunGone) as problem:
        raise SourceError(f"`{places.label(files[0])}` cannot be read to its end: {problem}") from problem
    late.extend(note for note in _notes(run, files, True) if note not in said and note not in late)


def _notes(run: LocalRun, files: Sequence[Path], is_whole: bool) -> list[str]:
    notes = list(run.notes)
    if len(files) > 1:
        notes.append(f"the run has {len(files)} files, one for each time it was started: they are read in that order")
    if is_whole and run.rest:
        notes.append(f"the last record of `{places.label(files[-1])}` is cut off ({run.rest} bytes) and left out")
    return notes
