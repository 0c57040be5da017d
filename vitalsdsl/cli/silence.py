"""vitals silence: hear nothing of a rule for a while."""

from __future__ import annotations

import difflib
import math
import re
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from vitalsdsl.acting.journal import Journal, journals_of
from vitalsdsl.acting.ledger import silence
from vitalsdsl.cli.app import fail, whoami
from vitalsdsl.cli.options import home_option, run_argument
from vitalsdsl.configuration import home_here
from vitalsdsl.ground.diagnostic import printable

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_MOST_NAMED = 5
_LONGEST = 3650 * _SECONDS["d"]


def seconds_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """`2h`, `30 min` as seconds."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|h|d)", value.strip())
    if found is None:
        raise click.BadParameter(f"`{printable(value)}`: write it as 30min, 2h or 1d")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _LONGEST:
        raise click.BadParameter(f"`{printable(value)}`: more than nothing and at most ten years; without it, for good")
    return seconds


@click.command("silence")
@run_argument
@click.argument("rule", required=False)
@click.option(
    "--for", "seconds", callback=seconds_of, metavar="TIME", help="For how long, as in 2h; without it, for good."
)
@click.option("--because", "reason", metavar="TEXT", help="Why, for the others.")
@click.option("--end", is_flag=True, help="End a silence.")
@click.option("--by", "author", default=whoami, metavar="NAME", help="Who; you, by default.")
@home_option
def command(
    run: str, rule: str | None, seconds: float | None, reason: str | None, end: bool, author: str, home: Path | None
) -> None:
    """Hear nothing of RULE in RUN: of one rule, or of all that a pattern such as `act_*` matches.

    Without RULE, the silences that hold. A watcher that is running heeds it at its next look at the run. RUN is its id, or
    the first letters of that, or the address of its page; or its name, once a rule of it has changed its level.
    """
    paths = journals_of(run, home_here(home))
    run = Journal(paths[0]).known_as(run)
    now = time.time()
    if rule is None:
        _list(run, paths, now)
        return
    if not end and not (reason or "").strip():
        fail("say why: --because TEXT")
    until = now if end else None if seconds is None else now + seconds
    heard: set[str] = set()
    for path in paths:
        journal = Journal(path)
        heard |= journal.rules
        if end and not any(held.rule == rule for held in journal.ledger(run).silences):
            continue
        journal.append([silence(run, rule, reason or "ended", until, now, author)])
        if journal.is_behind:
            fail(f"{path} cannot be written: nothing has changed")
        journal.close()
    if not end and heard and not any(fnmatchcase(name, rule) for name in heard):
        click.echo(printable(f"note: {_never_heard(run, rule, heard)}"), err=True)
    click.echo(printable(f"{rule} is {'heard again' if end else 'silenced'} in {run}"))


def _never_heard(run: str, rule: str, heard: set[str]) -> str:
    """A journal knows of the rules that changed their level, so a right name may be among the others."""
    near = difflib.get_close_matches(rule, heard, 1)
    listed = ", ".join(f"`{name}`" for name in sorted(heard)[:_MOST_NAMED])
    hint = f"did you mean `{near[0]}`?" if near else f"heard of: {listed}"
    return f"no rule `{rule}` has changed its level in {run} so far ({hint})"


def _list(run: str, paths: Sequence[Path], now: float) -> None:
    held = [silence for path in paths for silence in Journal(path).ledger(run).silences if now < silence.until]
    for one in dict.fromkeys(held):
        until = time.strftime("until %F %H:%M", time.localtime(one.until)) if math.isfinite(one.until) else "for good"
        click.echo(printable(f"{one.rule}  {until}  by {one.by or 'somebody'}: {one.reason}"))
    if not held:
        click.echo(printable(f"nothing is silenced in {run}"))
