"""vitals replay: the transitions that a policy gives on recorded runs."""

from __future__ import annotations

from collections.abc import Iterable

import click

from vitalsdsl.cli.app import EXIT_LEVEL, fail
from vitalsdsl.cli.options import fail_option, form_option, loading_options, step_option
from vitalsdsl.cli.output import coloured, progress, transition_line, warn_of_other_meaning
from vitalsdsl.diagnostic import printable
from vitalsdsl.errors import UsageError
from vitalsdsl.json_line import json_line
from vitalsdsl.logged import WHY_UNKNOWN, Reads
from vitalsdsl.points import Rewind
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.rules import Level
from vitalsdsl.sources import Recording, read
from vitalsdsl.stream import Stream
from vitalsdsl.verdict import Transition


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

    A SOURCE is a log file or folder (its format is found by content; a folder of W&B's is one), `-` for JSON lines on
    standard input, `mlflow:RUN_ID`, `mlflow:experiments/NAME`, `wandb:ENTITY/PROJECT/RUN` or `wandb:ENTITY/PROJECT`.
    With --policy-of only SOURCEs are given, or none for that run itself.
    """
    policy, sources = _asked(words, policy_of)
    loaded = load(policy, settings=settings, profile=profile)
    if policy_of is not None and not settings and profile is None:
        warn_of_other_meaning(loaded)
    if sources.count("-") > 1:
        fail("`-` can be given once")
    worst = Level.GREEN
    for source in sources:
        for recording in read(source, step_key=step_key or loaded.axis):
            worst = max(worst, _replay(loaded, recording, form))
    if fail_on is not None and worst >= Level.parse(fail_on) > Level.GREEN:
        ctx.exit(EXIT_LEVEL)


def _asked(words: tuple[str, ...], policy_of: str | None) -> tuple[str, tuple[str, ...]]:
    """The policy and the sources."""
    if policy_of is not None:
        return policy_of, words or (policy_of,)
    if len(words) < 2:
        raise click.UsageError("say which policy and which runs: vitals replay POLICY SOURCE…")
    return words[0], words[1:]


def _replay(loaded: LoadedPolicy, recording: Recording, form: str) -> Level:
    info = recording.info
    _say(info.name, info.notes)
    stream = Stream(loaded.policy, info.name, loaded.digest, keep_all=True, total_steps=info.total_steps)
    worst, count, rows = Level.GREEN, 0, 0
    if form == "text":
        click.echo(click.style(printable(info.name), bold=True))
    for event in progress(recording.events, info.name):
        rows += 1
        new = stream.rewind(event.step) if isinstance(event, Rewind) else stream.push_row(event)
        worst, count = _show(new, form, worst, count)
    worst, count = _show(stream.finish(), form, worst, count)
    _say(info.name, recording.late_notes)
    if form == "text":
        _summary(stream, rows, count)
    return worst


def _say(name: str, notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"{printable(name)}: {printable(note)}", err=True)


def _show(transitions: list[Transition], form: str, worst: Level, count: int) -> tuple[Level, int]:
    for transition in transitions:
        click.echo(json_line(transition.as_dict()) if form == "jsonl" else "  " + transition_line(transition))
        worst = max(worst, transition.to)
    return worst, count + len(transitions)


def _summary(stream: Stream, rows: int, count: int) -> None:
    if not rows:
        raise UsageError(f"{stream.run} holds no rows")
    said = f"{count} transition{'s' * (count != 1)} in {rows:,} rows; at the end {coloured(stream.level.word)}"
    click.echo(f"  {said}")
    reads = Reads(stream.policy)
    lacking = reads.never_logged(stream.names)
    if lacking:
        click.echo(f"  never logged: {printable(reads.told(lacking, stream.names))}", err=True)
    for name in reads.never_known(stream.plan.graph.clock.counter):
        click.echo(f"  never known: {name} ({WHY_UNKNOWN[name]})", err=True)
    if stream.late_points:
        late = "1 late point was" if stream.late_points == 1 else f"{stream.late_points:,} late points were"
        click.echo(f"  {late} read by no rule", err=True)
