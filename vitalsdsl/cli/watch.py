"""vitals watch: a policy over runs that exist, from outside."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from vitalsdsl.acting.control import CONTROL_VARIABLE, control_of
from vitalsdsl.acting.tracker import Port
from vitalsdsl.channels import PlannedChannels, channel_ports, channels_for
from vitalsdsl.cli.app import EXIT_LEVEL, EXIT_USAGE, fail
from vitalsdsl.cli.options import control_option, fail_option, form_option, home_option, loading_options, step_option
from vitalsdsl.cli.output import COLOURS, transition_line
from vitalsdsl.configuration import Assigned, configuration, home_here
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.language.rules import Level, Rule
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.watching.feeds import Wanted, target
from vitalsdsl.watching.store import last_visit
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Assignment, Shows, Watcher

_MOST_LINES = 30
_MOST_NAMED = 5


def tags_of(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str | None]:
    """`--tag team=nlp` or `--tag baseline` as a mapping."""
    found: dict[str, str | None] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not name.strip():
            raise click.BadParameter(f"`{value}`: write it as name=value, or as a name")
        found[name.strip()] = text if equals else None
    return found


@click.command("watch")
@click.argument("policy", required=False)
@click.argument("targets", nargs=-1, metavar="TARGET…")
@click.option("--once", is_flag=True, help="Read all runs up to now, act, and end: for cron.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; do, write and remember nothing.")
@click.option("--from-now", is_flag=True, help="Tell nobody of what runs went through before the watch began.")
@click.option("--finished", is_flag=True, help="Runs that have ended, too.")
@click.option("--tag", "tags", multiple=True, metavar="K[=V]", callback=tags_of, help="Only runs with this tag.")
@loading_options
@step_option
@control_option
@click.option("--may-stop", is_flag=True, help="Let `stop` press the tracker's own stop button (W&B).")
@home_option
@fail_option
@form_option
@click.pass_context
def command(
    ctx: click.Context,
    policy: str | None,
    targets: tuple[str, ...],
    once: bool,
    dry_run: bool,
    from_now: bool,
    finished: bool,
    tags: dict[str, str | None],
    settings: dict[str, str],
    profile: str | None,
    step_key: str | None,
    control: str | None,
    may_stop: bool,
    home: Path | None,
    fail_on: str | None,
    form: str,
) -> None:
    """Watch runs that exist, by POLICY, without a line changed in their training.

    A TARGET is `mlflow:RUN_ID`, `mlflow:experiments/NAME`, `wandb:ENTITY/PROJECT/RUN`, `wandb:ENTITY/PROJECT`, or
    `./wandb`, the `wandb` folder of a training on this disk, or the address of a run's page; NAME and PROJECT may be
    patterns: `llm-*`. `mlflow:` is what MLFLOW_TRACKING_URI names: a server, sqlite:///q.db, ./mlruns. Without POLICY,
    what `[[policies]]` in vitals.toml say is watched. Watched are the runs that go on, those that start later, and those
    that have come or ended since the target was last watched; each is read from its beginning, so that baselines are
    right, and followed to its end. A watcher that was killed goes on where it was.
    """
    found = configuration()
    if policy is not None:
        given = tuple(
            Assigned(target=t, policy=policy, profile=profile, tags=_as_given(tags), set=settings) for t in targets
        )
    elif tags or settings or profile is not None:
        fail("--tag, --set and --profile go with a POLICY; where vitals.toml says what is watched, it says them too")
    else:
        given = found.policies
    if not given:
        fail("no target given: vitals watch POLICY TARGET…, or [[policies]] in vitals.toml")
    loaded = [load(one.reference, settings=one.set, profile=one.profile) for one in given]
    named = channels_for([policy.policy for policy in loaded], found.channels)
    channels = [PlannedChannels(named)] if dry_run else channel_ports(named)

    def ports(info: RunInfo) -> list[Port]:
        asks = control or os.environ.get(CONTROL_VARIABLE)
        return [*channels, control_of(info.name, control)] if asks else [*channels]

    kept_in = home_here(home)
    assignments = []
    for one, judged in zip(given, loaded):
        before = last_visit(kept_in, one.target, judged.digest)
        wanted = Wanted(
            one.wanted_tags,
            finished,
            before.ended_after,
            before.begun,
            step_key=step_key or judged.axis,
            may_stop=may_stop,
        )
        assignments.append(Assignment(target(one.target, wanted), judged, ports, one.target))
    shows = _JsonLines() if form == "jsonl" else _Table() if _can_draw() else _Lines(dry_run)
    if not once:
        shows.said(f"watching {', '.join(one.target for one in given)} by {_policies(loaded)}; kept in {kept_in}")
    watcher = Watcher(assignments, kept_in, dry_run=dry_run, from_now=from_now, shows=shows)
    _end_gently(watcher)
    with shows:
        watcher.run(once=once)
    if dry_run and once and watcher.found:
        shows.said(f"a dry run: {shows.looked_at()} by {_rules(loaded)}: {shows.changed()}")
    if watcher.has_looked and not watcher.found:
        where = ", ".join(one.target for one in given)
        shows.said(f"no runs found in {where}" + ("" if finished else " (running ones; see --finished)"))
    if watcher.lost:
        ctx.exit(EXIT_USAGE)
    if fail_on is not None and shows.worst >= Level.parse(fail_on) > Level.GREEN:
        ctx.exit(EXIT_LEVEL)


def _rules(loaded: Sequence[LoadedPolicy]) -> str:
    """`12 rules of llm`."""
    policies = list({policy.digest: policy for policy in loaded}.values())
    count = sum(not rule.body.disabled for policy in policies for rule in policy.policy.of(Rule))
    return f"{count} rule{'s' * (count != 1)} of {_policies(loaded)}"


def _policies(loaded: Sequence[LoadedPolicy]) -> str:
    return ", ".join(dict.fromkeys(policy.name for policy in loaded))


def _end_gently(watcher: Watcher) -> None:
    """The first Ctrl-C or SIGTERM ends the watch in order; a second one at once."""

    def stop(number: int, frame: Any) -> None:
        watcher.stop()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def _can_draw() -> bool:
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _as_given(tags: Mapping[str, str | None]) -> dict[str, str | Literal[True]]:
    return {name: True if value is None else value for name, value in tags.items()}


class _Shown(Shows):
    """The base of the three ways to show a watch."""

    def __init__(self) -> None:
        self.worst = Level.GREEN
        self._seen: dict[str, tuple[str, int | None]] = {}
        self._changes = 0

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def saw(self, run: Watched, reading: Reading) -> None:
        self.worst = max([self.worst, run.level, *(t.to for t in reading.transitions)])
        self._seen[run.feed.uri] = run.feed.info.label, run.step
        self._changes += len(reading.transitions)

    def looked_at(self) -> str:
        """`2 runs (a to step 90, b to step 12)`."""
        seen = [
            f"{name} {'without a step yet' if step is None else f'to step {step:,}'}"
            for name, step in self._seen.values()
        ]
        more = [f"{len(seen) - _MOST_NAMED} more"] if len(seen) > _MOST_NAMED else []
        return f"{len(seen)} run{'s' * (len(seen) != 1)} ({', '.join(seen[:_MOST_NAMED] + more)})"

    def changed(self) -> str:
        """`no transition`, or how many."""
        return f"{self._changes or 'no'} transition{'s' * (self._changes > 1)}"

    def found(self, reference: str, runs: Sequence[RunInfo]) -> None:
        names = [run.label for run in runs[:_MOST_NAMED]] + ["…"] * (len(runs) > _MOST_NAMED)
        count = f"{len(runs)} run{'s' * (len(runs) != 1)}"
        self.said(f"found {count}{f' in {reference}' if reference else ''}: {', '.join(names)}")

    def said(self, text: str) -> None:
        click.echo(f"{_now()}  {printable(text)}", err=True)


class _JsonLines(_Shown):
    """Each transition as a JSON line, with what becomes of it."""

    def saw(self, run: Watched, reading: Reading) -> None:
        super().saw(run, reading)
        for decision in reading.decisions:
            told = {
                **decision.transition.as_dict(),
                "title": run.feed.info.title,
                "does": decision.text,
                "at": time.time(),
            }
            click.echo(json_line(told))


class _Lines(_Shown):
    """Each transition as a line, with what becomes of it, and a line when a run ends."""

    def __init__(self, dry_run: bool) -> None:
        super().__init__()
        self._does = "would do" if dry_run else "does"

    def saw(self, run: Watched, reading: Reading) -> None:
        super().saw(run, reading)
        name = f"{_now()}  {printable(run.feed.info.label)}"
        for decision in reading.decisions:
            if decision.is_repeat:
                continue
            click.echo(f"{name}  {transition_line(decision.transition)}")
            if decision.acts or decision.transition.to > decision.transition.from_:
                click.echo(f"{'':{len(name)}}  {self._does}: {printable(decision.text)}")
        if reading.ends:
            click.echo(f"{name}  has ended, {run.level.word}, at step {run.step}")


class _Table(_Shown):
    """All runs in a live table, the worst first, and below it what was last said and what last changed."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, tuple[Level, tuple[Text, ...]]] = {}
        self._lines: list[Text] = []
        self._live = Live(get_renderable=self._drawn, console=Console(), refresh_per_second=4)

    def __enter__(self) -> _Shown:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def saw(self, run: Watched, reading: Reading) -> None:
        super().saw(run, reading)
        name, level = printable(run.feed.info.label), run.level
        firing = ", ".join(
            f"{printable(rule)} {at.word}" for rule, at in sorted(run.firing.items(), key=lambda f: -f[1])
        )
        state = "ended" if reading.is_over else "catching up" if reading.more else "watched"
        step = "-" if run.step is None else f"{run.step:,}"
        # Never as a bare str: rich would read names as its markup.
        shown = (Text(name), Text(level.word, COLOURS[level.word]), Text(step), Text(firing), Text(state))
        self._rows[run.feed.uri] = level, shown
        for decision in reading.decisions:
            if decision.is_repeat:
                continue
            line = f"{name}  {transition_line(decision.transition)}"
            self._add(line + (f"  [{printable(decision.text)}]" if decision.acts else ""))

    def said(self, text: str) -> None:
        self._add(printable(text))

    def _add(self, line: str) -> None:
        self._lines = [*self._lines[-9:], Text.from_ansi(f"{time.strftime('%H:%M:%S')}  {line}")]

    def _drawn(self) -> Table:
        table = Table("run", "level", "step", "firing", "", box=None, expand=True)
        table.columns[0].overflow = table.columns[3].overflow = "fold"
        rows = sorted(list(self._rows.values()), key=lambda row: -row[0])  # noqa: C414 - copied at once: another thread adds
        for _, cells in rows[:_MOST_LINES]:
            table.add_row(*cells)
        whole = Table.grid()
        whole.add_row(table)
        if len(rows) > _MOST_LINES:
            whole.add_row(f"and {len(rows) - _MOST_LINES} more runs")
        for line in self._lines:
            whole.add_row(line)
        return whole
