"""vitals backtest: a policy over many recorded runs: what fires, and how right it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vitalsdsl.backtesting.backtest import Backtest, backtest
from vitalsdsl.backtesting.kept import Kept
from vitalsdsl.backtesting.over import OnProgress
from vitalsdsl.backtesting.pool import cores
from vitalsdsl.backtesting.records import records
from vitalsdsl.cli.app import EXIT_FINDINGS, EXIT_LEVEL, fail
from vitalsdsl.cli.backtest_tables import show
from vitalsdsl.cli.heartbeat import heartbeat
from vitalsdsl.cli.options import fail_option, home_option, loading_options, step_option
from vitalsdsl.cli.recorded import nothing_read
from vitalsdsl.configuration import home_here
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import MissingExtraError
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.language.rules import Level

EXIT_STOPPED = 130
"""As shells have it for what Ctrl-C ended."""

LEVELS = ("yellow", "orange", "red")


@click.command("backtest")
@click.argument("policy")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option(
    "--labels", metavar="FILE", help="What is known of the runs: which were healthy, which went wrong and when."
)
@click.option(
    "--tolerance",
    type=click.IntRange(min=0),
    default=0,
    metavar="STEPS",
    help="How long before the onset of an incident an alarm is still right.",
)
@click.option(
    "--at",
    "level",
    type=click.Choice(LEVELS),
    default="yellow",
    help="The level from which on alarms count, where one has to be chosen.",
)
@click.option("--versus", metavar="POLICY2", help="Another policy: what changes, run by run.")
@click.option(
    "--sweep", metavar="p=LO..HI[:N]", help="Vary a param, or p=2,3,4: what each value finds and what it costs."
)
@click.option(
    "--plot", "picture", metavar="FILE", help="Draw it, as .png, .svg or .pdf: pip install 'vitalsdsl[report]'."
)
@click.option("--jobs", type=click.IntRange(min=1), help="How many processes work; by default one for each core.")
@click.option(
    "--resume", is_flag=True, help="Take up also what was kept of trackers' runs, which may have gone on since."
)
@click.option("--no-cache", is_flag=True, help="Neither take up what was kept nor keep anything.")
@loading_options
@step_option
@fail_option
@home_option
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text")
@click.pass_context
def command(
    ctx: click.Context,
    policy: str,
    sources: tuple[str, ...],
    labels: str | None,
    tolerance: int,
    level: str,
    versus: str | None,
    sweep: str | None,
    picture: str | None,
    jobs: int | None,
    resume: bool,
    no_cache: bool,
    settings: dict[str, str],
    profile: str | None,
    step_key: str | None,
    fail_on: str | None,
    home: Path | None,
    form: str,
) -> None:
    """What POLICY gives on many recorded runs: per rule how often, when, on which runs. With --labels, how right it is:
    what it finds, how soon, and how many false alarms that costs.

    A SOURCE is a log file, a folder (all logs in it and below), or a tracker's reference: `mlflow:experiments/NAME`,
    `mlflow:RUN_ID`, `wandb:ENTITY/PROJECT`. One that cannot be read is named, and costs no other.

    The result of each file is kept in backtests.db in the home (.vitals) until the file or the policy changes, so that
    the same command goes on where it was stopped.
    """
    if resume and no_cache:
        raise click.UsageError("--resume takes up what --no-cache leaves alone: give one of them")
    if labels is None and tolerance:
        raise click.UsageError("--tolerance is about the incidents of --labels")
    plots = _plots(picture) if picture is not None else None
    kept = None if no_cache else Kept(home_here(home), resume)
    try:
        with _progress() as on_progress:
            found = backtest(
                policy, sources, settings=settings, profile=profile, labels=labels, tolerance=tolerance, level=level,
                versus=versus, sweep=sweep, step_key=step_key, jobs=jobs or cores(), kept=kept, on_progress=on_progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        where = f"; what was done is kept in {kept.path}: the same command goes on from there" if kept else ""
        click.echo(f"stopped{where}", err=True)
        ctx.exit(EXIT_STOPPED)
    finally:
        if kept is not None:
            kept.close()
    _told(found, kept)
    for note in found.assigned.notes if found.assigned is not None else ():
        click.echo(printable(note), err=True)
    if not found.runs:
        fail(nothing_read(found.unread))
    if plots is not None:
        plots.draw(found, picture)
    if form == "json":
        _print_json(found)
    elif form == "jsonl":
        for record in records(found):
            click.echo(json_line(record))
    else:
        show(found)
    if fail_on is not None and found.worst >= Level.parse(fail_on) > Level.GREEN:
        ctx.exit(EXIT_LEVEL)
    if any(one.is_named for one in found.unread):
        ctx.exit(EXIT_FINDINGS)


def _plots(picture: str) -> Any:
    """What draws, loaded only when it is asked for; the file's name is looked at before any work."""
    try:
        found = import_module("vitalsdsl.backtesting.plots")
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report") from error
    found.check_plot(picture)
    return found


def _told(found: Backtest, kept: Kept | None) -> None:
    if kept is not None and found.work.taken:
        work = found.work
        taken = f"{work.taken:,} of {work.places:,} were read before and are as they were"
        click.echo(f"{taken}: taken from {kept.path} (--no-cache reads all anew)", err=True)


def _print_json(found: Backtest) -> None:
    """One document: the summary, and under `rules`, `runs`, … the other records."""
    document: dict[str, Any] = {}
    for record in records(found):
        kind = record.pop("type")
        if kind == "summary":
            document[kind] = record
        else:
            document.setdefault(f"{kind}s" if kind != "unread" else kind, []).append(record)
    click.echo(json_line(document))


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """A bar on stderr where a person can see it, else a line now and then."""
    console = Console(stderr=True)
    if not (console.is_terminal and sys.stderr.isatty()):
        lines = _Lines()
        with heartbeat(lines.told):
            yield lines
        return
    columns = (
        TextColumn("backtest"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("backtest", total=None, pace="")
        began = time.monotonic()

        def on_progress(done: int, places: int, points: int) -> None:
            pace = points / max(time.monotonic() - began, 0.1)
            bar.update(task, completed=done, total=places, pace=f"{_count(pace)} points/s" if points else "")

        yield on_progress


class _Lines:
    """How far it is, for the line that is said now and then."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._done = (0, 0, 0)

    def __call__(self, done: int, places: int, points: int) -> None:
        self._done = done, places, points

    def told(self) -> str:
        done, places, points = self._done
        pace = points / max(time.monotonic() - self._began, 0.1)
        return f"{done:,} of {places:,} read, {_count(pace)} points/s" if done < places else ""


def _count(number: float) -> str:
    """A big number, shortly.

    >>> _count(912), _count(81_200), _count(2_340_000)
    ('912', '81k', '2.3M')
    """
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 10 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"
