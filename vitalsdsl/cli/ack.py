"""vitals ack: a person knows of an alert, and wants to hear no more of it."""

from __future__ import annotations

import getpass
import time
from pathlib import Path

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.diagnostic import printable
from vitalsdsl.journal import Journal, journals_of
from vitalsdsl.ledger import acknowledgement


@click.command("ack")
@click.argument("run")
@click.argument("rule", metavar="ID|RULE")
@click.option("--because", "reason", required=True, metavar="TEXT", help="What is known, for the others.")
@click.option("--by", "author", default=getpass.getuser, metavar="NAME", help="Who; you, by default.")
@click.option(
    "--home", type=click.Path(path_type=Path), help="The watcher's store and journals; VITALS_HOME or .vitals."
)
def command(run: str, rule: str, reason: str, author: str, home: Path | None) -> None:
    """Acknowledge what a rule says of RUN: it is told no more until the rule is green again, or gets worse.

    ID is that of an alert, or the beginning of it. Tags go on to show how things are.
    """
    found = False
    for path in journals_of(run, home):
        journal = Journal(path)
        named = journal.subjects(rule)
        for name, members in list(journal.ledger(run).standing.items()):
            for member, standing in list(members.items()):
                if name == rule or (name, member) in named:
                    found = True
                    journal.append([acknowledgement(run, name, member, standing.level, reason, time.time(), author)])
                    subject = name if member is None else f"{name} ({member})"
                    click.echo(printable(f"{subject} is {standing.level.word}, and {author} knows of it"))
        journal.close()
    if not found:
        fail(f"no rule or alert `{rule}` stands in run {run}")
