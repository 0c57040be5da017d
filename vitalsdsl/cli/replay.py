"""vitals replay: the transitions that a policy gives on recorded runs."""

from __future__ import annotations

from collections.abc import Iterable

import click

from vitalsdsl.cli.app import EXIT_LEVEL, fail
from vitalsdsl.cli.output import coloured, json_line, progress, transition_line, warn_of_other_meaning
from vitalsdsl.diagnostic import printable
from vitalsdsl.errors import UsageError
from vitalsdsl.logged import WHY_UNKNOWN, Reads
from vitalsdsl.points import Rewind
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.rules import LEVEL_WORDS, Level
from vitalsdsl.sources import Recording, read
from vitalsdsl.stream import Stream
from vitalsdsl.verdict import Transition


def settings_of(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`--set k=2.5` as a mapping."""
    pairs = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise click.BadParameter(f"`{value}`: write it as name=value, as in --set k=2.5")
        pairs[name.strip()] = text.strip()
    return pairs


@click.command("replay")
@click.argument("words", nargs=-1, metavar="POLICY SOURCE…")
@click.option("--policy-of", metavar="RUN", help="Take the policy that watched a run, as it was kept with the run.")
@click.option("--set", "settings", multiple=True, metavar="p=v", callback=settings_of, help="Set a param.")
@click.option("--profile", metavar="P", help="Take the param values of a profile.")
@click.option("--step", "step_key", metavar="KEY", help="The logged name that is the training step.")
@click.option("--fail-on", type=click.Choice(LEVEL_WORDS), help="Exit 3 where a level at or above this is reached.")
@click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text")
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

    A SOURCE is a log file or folder (its format is found by content), `-` for JSON lines on standard input, or
    `mlflow:RUN_ID`, or `wandb:PATH` for runs of W&B on this disk. With --policy-of only SOURCEs are given, or none for
    that run itself.
    """
    policy, sources = _asked(words, policy_of)
    loaded = load(policy, settings=settings, profile=profile)
    if policy_of is not None and not settings and profile is None:
        warn_of_other_meaning(loaded)
    if sources.count("-") > 1:
        fail("`-` can be given once")
    worst = Level.GREEN
    for source in sources:
        for recording in read(source, step_key=step_key or axis_of(loaded)):
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


def axis_of(loaded: LoadedPolicy) -> str | None:
    """The metric that the policy names as the step axis."""
    return loaded.axis


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
    _say(info.name, getattr(recording, "late_notes", ()))
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
