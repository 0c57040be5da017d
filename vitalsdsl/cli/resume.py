"""vitals resume: a person lets a paused training go on."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import click

from vitalsdsl.acting.control import control_of
from vitalsdsl.acting.journal import id_of
from vitalsdsl.cli.app import whoami
from vitalsdsl.cli.options import control_option, home_option, run_argument
from vitalsdsl.configuration import home_here
from vitalsdsl.ground.diagnostic import printable


@click.command("resume")
@run_argument
@click.option("--because", "reason", default="", metavar="TEXT", help="Why, for those who read it later.")
@control_option
@home_option
def command(run: str, reason: str, control: str | None, home: Path | None) -> None:
    """Ask the training of RUN to go on after a pause.

    The channel is --control, or VITALS_CONTROL. Its answer shows in `vitals requests RUN`. RUN is its id, or the name by
    which the journals in --home know it.
    """
    channel = control_of(run, control)
    if not channel.is_known and (id_ := id_of(run, home_here(home))) != run:
        run, channel = id_, control_of(id_, control)
    request = {
        "id": str(uuid.uuid4()), "run": run, "action": "resume", "author": whoami(), "reason": reason,
        "issued_at": time.time(),
    }  # fmt: skip
    if not channel.is_known:
        click.echo(f"note: nothing has been asked of {printable(run)} before: is that its name?", err=True)
    channel.ask(request)
    click.echo(f"asked: {request['id']}")
