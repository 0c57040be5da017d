"""vitals requests: what has been asked of a training, and what it answered."""

from __future__ import annotations

import click

from vitalsdsl.cli.options import control_option, form_option, run_argument
from vitalsdsl.control import control_of
from vitalsdsl.diagnostic import printable
from vitalsdsl.json_line import json_line
from vitalsdsl.points import number


@click.command("requests")
@run_argument
@control_option
@form_option
def command(run: str, control: str | None, form: str) -> None:
    """The requests on RUN's control channel, the oldest first, each with the training's answer. What the policy in the
    training itself has asked is among them.

    The channel is --control, or VITALS_CONTROL.
    """
    channel = control_of(run, control)
    asked = sorted([*channel.asked(), *channel.own()], key=lambda one: number(one.request.get("issued_at")) or 0.0)
    for one in asked:
        request, answer = one.request, one.answer
        if form == "jsonl":
            click.echo(json_line({"type": "request", "state": one.state, **request, "answer": answer}))
            continue
        why = f" by {request['rule']} at step {request.get('trip_step', '?')}" if request.get("rule") else ""
        by = f" by {request['author']}" if request.get("author") else ""
        reason = f": {request['reason']}" if request.get("reason") else ""
        said = f" ({answer['reason']})" if answer is not None and answer.get("reason") else ""
        click.echo(printable(f"{request['id'][:8]}  {one.state}{said}  {request['action']}{why}{by}{reason}"))
    if not asked and form == "text":
        click.echo(f"nothing has been asked of {printable(run)}")
