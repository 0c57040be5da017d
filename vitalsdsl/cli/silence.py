"""vitals silence: hear nothing of a rule for a while."""

from __future__ import annotations

import getpass
import re
import time
from pathlib import Path

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.diagnostic import printable
from vitalsdsl.journal import Journal, journals_of
from vitalsdsl.ledger import silence

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """`2h`, `30 min` as seconds."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)", value.strip())
    if found is None:
        raise click.BadParameter(f"`{value}`: write it as 30min, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


@click.command("silence")
@click.argument("run")
@click.argument("rule", required=False)
@click.option(
    "--for", "seconds", callback=seconds_of, metavar="TIME", help="For how long, as in 2h; without it, for good."
)
@click.option("--because", "reason", metavar="TEXT", help="Why, for the others.")
@click.option("--end", is_flag=True, help="End a silence.")
@click.option("--by", "author", default=getpass.getuser, metavar="NAME", help="Who; you, by default.")
@click.option(
    "--home", type=click.Path(path_type=Path), help="The watcher's store and journals; VITALS_HOME or .vitals."
)
def command(
    run: str, rule: str | None, seconds: float | None, reason: str | None, end: bool, author: str, home: Path | None
) -> None:
    """Hear nothing of RULE in RUN: of one rule, or of all that a pattern such as `act_*` matches.

    Without RULE, the silences that hold. A watcher that is running heeds it at its next look at the run.
    """
    paths = journals_of(run, home)
    now = time.time()
    if rule is None:
        for path in paths:
            for held in Journal(path).ledger(run).silences:
                if now < held.until:
                    when = (
                        "for good"
                        if held.until == float("inf")
                        else time.strftime("until %F %H:%M", time.localtime(held.until))
                    )
                    click.echo(printable(f"{held.rule}  {when}  by {held.by or 'somebody'}: {held.reason}"))
        return
    if reason is None and not end:
        fail("say why: --because TEXT")
    until = now if end else None if seconds is None else now + seconds
    for path in paths:
        journal = Journal(path)
        journal.append([silence(run, rule, reason or "ended", until, now, author)])
        journal.close()
    click.echo(printable(f"{rule} is {'heard again' if end else 'silenced'} in {run}"))
