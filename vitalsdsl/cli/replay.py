"""vitals replay: the transitions that a policy gives on recorded runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from vitalsdsl.cli.app import EXIT_LEVEL, EXIT_USAGE
from vitalsdsl.cli.options import fail_option, form_option, loading_options, step_option
from vitalsdsl.cli.output import Remarks, coloured, progress, transition_line, warn_of_other_meaning
from vitalsdsl.cli.recorded import recordings
from vitalsdsl.columns.batch import Batch, Replayed
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import SourceError, UsageError
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes.table import InPieces, Piece, Table
from vitalsdsl.planning.logged import WHY_UNKNOWN, Reads
from vitalsdsl.planning.unrecognised import otherwise_lacking, unrecognised
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.runs.sources import Recording
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition


@click.command("replay")
@click.argument("words", nargs=-1, metavar="POLICY SOURCE…")
@click.option("--policy-of", metavar="RUN", help="Take the policy that watched a run, as it was kept with the run.")
@loading_options
@step_option
@fail_option
@form_option
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    policy_of: str | None,
    settings: dict[str, str],
    profile: str | None,
    step_key: str | None,
    fail_on: str | None,
    form: str,
) -> None:
    """The transitions that POLICY gives on recorded runs.

    A SOURCE is a log file (its format is found by content), a folder (all logs in it and below; one of W&B's or MLflow's
    stands for its runs), `-` for JSON lines on standard input, `mlflow:RUN_ID`, `mlflow:experiments/NAME`,
    `wandb:ENTITY/PROJECT/RUN` or `wandb:ENTITY/PROJECT`.
    With --policy-of only SOURCEs are given, or none for that run itself.
    """
    policy, sources = _asked(words, policy_of)
    loaded = load(policy, settings=settings, profile=profile)
    if policy_of is not None and not settings and profile is None:
        warn_of_other_meaning(loaded)
    worst, batch, is_whole = Level.GREEN, Batch(loaded.policy, loaded.digest), True
    remarks = Remarks()
    try:
        for recording in recordings(sources, step_key or loaded.axis):
            try:
                if recording.is_pipe:
                    worst = max(worst, _replay_as_it_comes(loaded, recording, form, remarks))
                else:
                    worst = max(worst, _replay(loaded, batch, recording, form, remarks))
            except SourceError as broken:  # it costs no other run
                click.echo(f"error: {printable(str(broken))}", err=True)
                is_whole = False
    finally:
        remarks.tell()
    if not is_whole:
        ctx.exit(EXIT_USAGE)
    if fail_on is not None and worst >= Level.parse(fail_on) > Level.GREEN:
        ctx.exit(EXIT_LEVEL)


def _asked(words: tuple[str, ...], policy_of: str | None) -> tuple[str, tuple[str, ...]]:
    """The policy and the sources."""
    if policy_of is not None:
        return policy_of, words or (policy_of,)
    if len(words) < 2:
        raise click.UsageError("say which policy and which runs: vitals replay POLICY SOURCE…")
    return words[0], words[1:]


def _replay(loaded: LoadedPolicy, batch: Batch, recording: Recording, form: str, remarks: Remarks) -> Level:
    """A whole run at once. One that cannot be read to its end is replayed as far as it could be."""
    info = recording.info
    is_long = isinstance(recording.events, InPieces)
    events = _InPiecesAsFarAsItGoes(recording) if is_long else _AsFarAsItGoes(recording)
    table = Table.of(events)
    again = _Anew(table) if is_long and table is not None else events
    seen = batch.replayed(again, info.name, info.total_steps, table)
    if form == "text":
        click.echo(click.style(printable(info.name), bold=True))
    worst, count = _show(seen.transitions, form, Level.GREEN, 0)
    if events.broken is not None:
        raise events.broken
    if form == "text":
        _summary(loaded, info.name, seen, events.count, count, remarks)
    return worst


class _AsFarAsItGoes:
    """The events of a run, that can be gone through again. What cannot be read is their end, and is kept: a long run is not
    held in memory, and shows only then that it is damaged."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.broken: SourceError | None = None
        self.count = 0

    def __iter__(self) -> Iterator[Row | Rewind]:
        count = 0
        try:
            for event in progress(self._recording.events, self._recording.info.name):
                count += 1
                yield event
        except SourceError as error:
            self.broken = error
        finally:
            self.count = max(self.count, count)


class _InPiecesAsFarAsItGoes(_AsFarAsItGoes):
    """The same of a long run, which is read in pieces."""

    def pieces(self) -> Iterator[Piece | Sequence[Row | Rewind]]:
        events = self._recording.events
        assert isinstance(events, InPieces)
        count = 0
        try:
            for piece in progress(events.pieces(), self._recording.info.name, rows_of=len):
                count += len(piece)
                yield piece
        except SourceError as error:
            self.broken = error
        finally:
            self.count = max(self.count, count)


class _Anew:
    """The rows of a run that is held in columns: made of these sooner than read once more."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __iter__(self) -> Iterator[Row]:
        return self._table.events()


def _replay_as_it_comes(loaded: LoadedPolicy, recording: Recording, form: str, remarks: Remarks) -> Level:
    """A pipe, of which more may come: each transition is told as soon as its step has closed."""
    info = recording.info
    stream = Stream(loaded.policy, info.name, loaded.digest, keep_all=True, total_steps=info.total_steps)
    worst, count, rows = Level.GREEN, 0, 0
    if form == "text":
        click.echo(click.style(printable(info.name), bold=True))
    for event in progress(recording.events, info.name):
        rows += 1
        new = stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
        worst, count = _show(new, form, worst, count)
    worst, count = _show(stream.finish(), form, worst, count)
    if form == "text":
        counter = stream.plan.graph.clock.counter
        seen = Replayed([], stream.level, stream.names, stream.late_points, counter)
        _summary(loaded, info.name, seen, rows, count, remarks)
    return worst


def _show(transitions: list[Transition], form: str, worst: Level, count: int) -> tuple[Level, int]:
    for transition in transitions:
        click.echo(json_line(transition.as_dict()) if form == "jsonl" else "  " + transition_line(transition))
        worst = max(worst, transition.to)
    return worst, count + len(transitions)


def _summary(loaded: LoadedPolicy, run: str, seen: Replayed, rows: int, count: int, remarks: Remarks) -> None:
    if not rows:
        raise UsageError(f"{run} holds no rows")
    reads = Reads(loaded.policy)
    blind = unrecognised(reads, seen.names)
    said = f"{count} transition{'s' * (count != 1)} in {rows:,} row{'s' * (rows != 1)}; at the end {coloured(seen.level.word)}"
    unseen = ", but no rule looked at the loss" if any(one.metric == "loss" for one in blind) else ""
    click.echo(f"  {said}{unseen}")
    remarks.runs += 1
    for one in blind:
        remarks.add(one.metric, one.told)
    lacking = otherwise_lacking(reads, seen.names, blind)
    if lacking:
        remarks.add("never logged", reads.told(lacking, seen.names))
    for name in reads.never_known(seen.counter):
        remarks.add("never known", f"{name} ({WHY_UNKNOWN[name]})")
    if seen.table is not None:
        for said in reads.stopped(seen.table.stopped(), int(seen.table.rows.steps[-1])):
            remarks.add("logged no more", said)
    if seen.late_points:
        late = "1 late point was" if seen.late_points == 1 else f"{seen.late_points:,} late points were"
        click.echo(f"  {late} read by no rule", err=True)
