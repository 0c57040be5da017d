"""vitals packs: the installed packs of rules."""

from __future__ import annotations

from collections.abc import Iterator

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.cli.options import form_option
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import VitalsError
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.language.rules import Param, Rule
from vitalsdsl.planning.logged import Reads
from vitalsdsl.policies.packs import packs
from vitalsdsl.policies.policy import LoadedPolicy, load

CHECKUP = "pack:checkup"
"""The check-list that `vitals report` fills in: for a look from time to time, and no alarm."""


@click.command("packs")
@click.argument("name", required=False)
@form_option
def command(name: str | None, form: str) -> None:
    """The installed packs; with NAME its rules, what it reads of a run, and its params."""
    known = packs()
    if name is not None and name not in known:
        fail(f"no pack called `{name}` is installed; installed: {', '.join(known) or 'none'}")
    for pack in known if name is None else [name]:
        loaded = load(f"pack:{pack}")
        rules = loaded.policy.of(Rule)
        if form == "jsonl":
            listed = [{"rule": rule.name, "title": rule.title} for rule in rules]
            click.echo(json_line({"type": "pack", "name": pack, "digest": loaded.digest, "rules": listed}))
            continue
        title = printable(loaded.policy.title or "")
        click.echo(click.style(pack, bold=True) + f"  {title}  ({len(rules)} rules)")
        if name is not None:
            for rule in rules:
                click.echo(f"  {rule.name:24} {printable(rule.title or '')}")
            for read in Reads(loaded.policy).metrics:
                names = ", ".join(f'"{printable(logged)}"' for logged in read.names)
                click.echo(f"  reads {printable(read.path)} from {names}{' (optional)' if read.optional else ''}")
            params = loaded.policy.of(Param)
            for param in params:
                click.echo(f"  param {printable(param.span.text.removeprefix('param').strip())}")


def installed() -> Iterator[LoadedPolicy]:
    """The installed packs, the one of shared names first; one that is broken is told of, and hides no other."""
    for name in sorted(packs(), key=lambda name: (name != "names", name)):
        try:
            yield load(f"pack:{name}")
        except VitalsError:
            click.echo(f"pack {name} has errors and is left out: see `vitals check pack:{name}`", err=True)
