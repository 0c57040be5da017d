"""vitals run: start a training with a policy attached."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from vitalsdsl.cli.options import home_option
from vitalsdsl.cli.output import coloured
from vitalsdsl.configuration import home_here
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.language.rules import Level
from vitalsdsl.launching import launch, levels_reached, was_watched
from vitalsdsl.policies.policy import load
from vitalsdsl.watching.watched import Reading, Watched
from vitalsdsl.watching.watcher import Shows

MOST_DEEDS = 3


class _OnStderr(Shows):
    """The training's own output is left alone. `outside` are the runs of which nothing is said from inside."""

    def __init__(self) -> None:
        self.outside: set[str] = set()

    def saw(self, run: Watched, reading: Reading) -> None:
        self.outside.add(run.feed.info.name)

    def said(self, text: str) -> None:
        click.echo(f"vitals: {printable(text)}", err=True)


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("policy")
@click.argument("command_line", nargs=-1, required=True, metavar="-- CMD…", type=click.UNPROCESSED)
@home_option
@click.pass_context
def command(ctx: click.Context, policy: str, command_line: tuple[str, ...], home: Path | None) -> None:
    """Start CMD with POLICY attached to whatever it logs to, as in `vitals run llm.vitals -- python train.py`.

    Where the tracker's package is met inside the training, the policy is attached there; a W&B run in which it is not
    is watched by its files. Exits with the code of CMD.
    """
    loaded = load(policy)
    path = Path(policy)
    reference = str(path.absolute()) if path.exists() else policy
    words = command_line[1:] if command_line[0] == "--" else command_line
    if not words:
        raise click.UsageError("no command given: vitals run POLICY -- python train.py")
    began = time.time()
    place = home_here(home)
    shows = _OnStderr()
    code = launch(loaded, reference, words, place, shows)
    if not was_watched(place, began):
        click.echo("vitals: no run of MLflow or W&B was logged: the policy watched nothing", err=True)
    _summary(place, began, shows.outside)
    ctx.exit(code)


def _summary(home: Path, since: float, outside: Collection[str]) -> None:
    """What was seen, on stderr: of a run that was watched from outside each change that was acted upon. From inside each
    was told when it came: there it is how many there were, and what was done."""
    for run, records in levels_reached(home, since):
        if run not in outside:
            count, worst = len(records), max(Level.parse(record["to"]) for record in records)
            done = "; ".join(list(dict.fromkeys(filter(None, map(_did, records))))[:MOST_DEEDS])
            changes = f"{count} change{'s' * (count != 1)} acted upon, at worst {coloured(worst.word)}"
            click.echo(f"vitals: run {printable(run)}: {changes}: {printable(done)}", err=True)
            continue
        for record in records:
            rule = record["rule"] if record["member"] is None else f"{record['rule']}[{record['member']}]"
            change = f"{record['from']} -> {coloured(record['to'])}"
            click.echo(
                f"vitals: run {printable(run)}: step {record['step']}  {change}  {printable(rule)}: "
                f"{printable(_did(record))}",
                err=True,
            )


def _did(record: Mapping[str, Any]) -> str:
    return record.get("text") or record.get("why") or ""
