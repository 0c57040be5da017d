"""vitals ack: a person knows of an alert, and wants to hear no more of it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from vitalsdsl.acting.journal import Journal, journals_of
from vitalsdsl.acting.ledger import acknowledgement
from vitalsdsl.cli.app import fail, whoami
from vitalsdsl.cli.options import home_option, run_argument
from vitalsdsl.configuration import home_here
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.language.rules import Level


@click.command("ack")
@run_argument
@click.argument("rule", metavar="ID|RULE")
@click.option("--because", "reason", required=True, metavar="TEXT", help="What is known, for the others.")
@click.option("--by", "author", default=whoami, metavar="NAME", help="Who; you, by default.")
@home_option
def command(run: str, rule: str, reason: str, author: str, home: Path | None) -> None:
    """Acknowledge what a rule says of RUN: it is told no more until the rule is green again, or gets worse.

    ID is that of an alert, or the beginning of it. Tags go on to show how things are. RUN is its id, or the first letters
    of that, or the address of its page; or its name, if no other run has it.
    """
    if not reason.strip():
        fail("say what is known: --because TEXT")
    journals = [Journal(path) for path in journals_of(run, home_here(home))]
    run = journals[0].known_as(run)
    standing = [(journal, *one) for journal in journals for one in _standing(journal, run)]
    chosen = [one for one in standing if one[1] == rule]
    if not chosen:
        named = {subject for journal in journals for subject in journal.subjects(rule)}
        chosen = [one for one in standing if (one[1], one[2]) in named]
        if len({(name, member) for _, name, member, _ in chosen}) > 1:
            fail(f"several alerts begin with `{rule}`: give more of it")
    if not chosen:
        fail(f"no rule or alert `{rule}` stands in run {run}")
    for journal, name, member, level in chosen:
        journal.append([acknowledgement(run, name, member, level, reason, time.time(), author)])
        if journal.is_behind:
            fail(f"{journal.path} cannot be written: nothing has changed")
        subject = name if member is None else f"{name} ({member})"
        click.echo(printable(f"{subject} is {level.word}, and {author} knows of it"))
    for journal in journals:
        journal.close()


def _standing(journal: Journal, run: str) -> list[tuple[str, str | None, Level]]:
    """The rules that are not green, with member and level."""
    found = journal.ledger(run).standing
    return [(rule, member, one.level) for rule, members in found.items() for member, one in members.items()]
