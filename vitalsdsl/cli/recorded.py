"""Recorded runs as commands take them: any number of sources, `-` once, what a reader says aloud on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.cli.heartbeat import NOW, heartbeat
from vitalsdsl.cli.output import progress
from vitalsdsl.cli.packs import installed
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import VitalsError
from vitalsdsl.ground.points import Rewind, Row, RunInfo
from vitalsdsl.ground.survey import Survey, Surveyor
from vitalsdsl.language.rules import Axis, Policy
from vitalsdsl.lints.runs import Runs
from vitalsdsl.planning.naming import Vocabulary
from vitalsdsl.runs.places import Place, Unread, places_of
from vitalsdsl.runs.sources import Recording, read
from vitalsdsl.trial import Trial

MOST_SHOWN = 5
"""Of the runs themselves: a survey of thousands is about their names."""


def recordings(sources: Sequence[str], step_key: str | None = None, *, quietly: bool = False) -> Iterator[Recording]:
    """The runs of all sources, each read when its turn comes, with its reader's notes said.

    A folder stands for all logs in it and below, a tracker's reference for its runs. What merely lies in a folder and is
    no log is passed over, and said at the end. A source that cannot be read costs no other: that too is said at the end,
    and is exit 2, as sources without any run are. `quietly`: all has been said before.
    """
    if list(sources).count("-") > 1:
        fail("`-` can be given once")
    unread: list[Unread] = []
    seen: set[str] = set()
    said: dict[str, int] = {}
    count = 0
    with heartbeat():
        for source in sources:
            for recording in (
                read(source, step_key=step_key) if source == "-" else _found(source, step_key, seen, unread)
            ):
                count += 1
                if not quietly:
                    _say(recording.info, recording.info.notes, said)
                yield recording
                if not quietly:
                    _say(recording.info, recording.late_notes, said)
    for note, times in said.items():
        if times > 1:
            click.echo(f"{times - 1:,} more run{'s' * (times > 2)}: {printable(note)}", err=True)
    named = [one for one in unread if one.is_named]
    if sources and not count:
        fail(nothing_read(unread))
    if len(named) < len(unread) and not quietly:
        click.echo(_passed_over([one for one in unread if not one.is_named]), err=True)
    if named:
        fail("\n".join(one.told for one in named))


def _found(source: str, step_key: str | None, seen: set[str], unread: list[Unread]) -> Iterator[Recording]:
    places, cannot = places_of([source], step_key)
    unread += cannot
    for place in places:
        if place.reference in seen:
            continue
        seen.add(place.reference)
        NOW.what, NOW.rows = place.shown, 0
        try:
            found = read(source if place.is_named and place.is_file else place.reference, step_key=step_key)
        except VitalsError as problem:
            unread.append(Unread(place.shown, str(problem), place.is_named))
            continue
        yield from (_called(recording, place) for recording in found)


def _called(recording: Recording, place: Place) -> Recording:
    """With a name that tells it from those of the same name in other folders."""
    if not place.within:
        return recording
    _, sign, number = recording.info.name.rpartition("#")
    which = f"#{number}" if sign and number.isdecimal() else ""
    info = replace(recording.info, name=f"{place.within}/{Path(place.shown).name}{which}")
    return replace(recording, info=info)


def nothing_read(unread: Sequence[Unread]) -> str:
    """What is said where no run could be read: why, for the first few."""
    listed = [one.told for one in unread[:MOST_SHOWN]]
    more = [f"and {len(unread) - MOST_SHOWN:,} more"] if len(unread) > MOST_SHOWN else []
    return "\n".join(["no run could be read", *listed, *more])


def _passed_over(unread: Sequence[Unread]) -> str:
    shown = "; ".join(printable(one.told) for one in unread[:MOST_SHOWN])
    more = f"; and {len(unread) - MOST_SHOWN:,} more" if len(unread) > MOST_SHOWN else ""
    return f"passed over, as no log that can be read: {shown}{more}"


def _say(info: RunInfo, notes: Sequence[str], said: dict[str, int]) -> None:
    """What a reader says of a run; what it said of an earlier one is counted, and told at the end."""
    for note in notes:
        said[note] = said.get(note, 0) + 1
        if said[note] == 1:
            click.echo(f"{printable(info.name)}: {printable(note)}", err=True)


def surveyed(sources: Sequence[str], step_key: str | None = None) -> Survey:
    """What the runs of all sources logged. With nothing logged at all it is one message, and exit 2."""
    surveyor = Surveyor()
    for recording in recordings(sources, step_key):
        for _ in going_through(surveyor, recording):
            pass
    survey = surveyor.result()
    if not survey.metrics:
        fail(f"{printable(', '.join(sources))}: no run there logs anything")
    return survey


def tried(policy: Policy, against: Sequence[str], healthy: Sequence[str], step_key: str | None = None) -> Runs:
    """What the runs of sources, and of those that were healthy, say of a policy."""
    trial = Trial(policy)
    axis = step_key or next((s.metric for s in policy.of(Axis)), None)
    for sources, are_healthy in ((against, False), (healthy, True)):
        for recording in recordings(sources, axis):
            for _ in progress(trial.going_through(recording.info, recording.events, are_healthy), recording.info.name):
                pass
    runs = trial.result()
    if not runs.count:
        fail(f"{printable(', '.join([*against, *healthy]))}: no run there logs anything")
    return replace(runs, also_called=lambda name: _vocabulary().also_called(name))


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary.of(pack.policy for pack in installed())


def going_through(surveyor: Surveyor, recording: Recording) -> Iterator[Row | Rewind]:
    """The rows of one run with a bar for those who wait."""
    return progress(surveyor.going_through(recording.info, recording.events), recording.info.name)


def runs_told(survey: Survey) -> Iterator[str]:
    """Each run in a line, and how many more there are."""
    for run in survey.runs[:MOST_SHOWN]:
        if not run.steps:
            yield f"{printable(run.info.label)}: nothing logged"
            continue
        said = f"{run.steps:,} step{'s' * (run.steps != 1)}, {run.first:,} .. {run.last:,}"
        if run.rewinds:
            said += f", went back {run.rewinds} time{'s' * (run.rewinds != 1)}"
        if run.seconds_per_step == run.seconds_per_step:
            said += f", {run.seconds_per_step:.3g} s a step"
        if run.further_names:
            said += f", {run.further_names:,} or more names beyond those looked at"
        yield f"{printable(run.info.label)}: {said}"
    if len(survey.runs) > MOST_SHOWN:
        yield f"and {len(survey.runs) - MOST_SHOWN:,} more runs"
