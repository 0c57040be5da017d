"""vitals requests: what has been asked of a training, and what it answered."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from vitalsdsl.acting import messages
from vitalsdsl.acting.control import CONTROL_VARIABLE, Asked, answers_in, control_of
from vitalsdsl.acting.dispatch import REQUEST_LIFETIME
from vitalsdsl.acting.journal import Journal, journals_of
from vitalsdsl.actions.base import registry
from vitalsdsl.cli.options import control_option, form_option, home_option, run_argument
from vitalsdsl.configuration import home_here
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.ground.points import number


@click.command("requests")
@run_argument
@control_option
@home_option
@form_option
def command(run: str, control: str | None, home: Path | None, form: str) -> None:
    """What has been asked of RUN, the oldest first, each with the training's answer. What the policy in the training
    itself has asked is among them.

    The control channel, --control or VITALS_CONTROL, knows the answers. What the journals in --home know beside it was
    `delivered` to the training or not; with no channel, they are all that is listed. Where --home is the folder of a guard,
    its history has the answers.
    """
    journals = _journals(run, home)
    run = journals[0].known_as(run) if journals else run
    is_on_a_channel = bool(control or os.environ.get(CONTROL_VARIABLE))
    asked: dict[str, Asked] = {}
    if is_on_a_channel or not journals:
        channel = control_of(run, control)
        asked = {str(one.request["id"]): one for one in (*channel.asked(), *channel.own())}
    for journal in journals:
        for one in _noted(journal, run, answers_in(home_here(home))):
            asked.setdefault(str(one.request["id"]), one)
        journal.close()
    for one in sorted(asked.values(), key=lambda one: number(one.request.get("issued_at")) or 0.0):
        _show(one, form)
    if not asked and form == "text":
        click.echo(f"nothing has been asked of {printable(run)}")


def _show(one: Asked, form: str) -> None:
    request, answer = one.request, one.answer
    if form == "jsonl":
        click.echo(json_line({"type": "request", "state": one.state, **request, "answer": answer}))
        return
    why = f" by {request['rule']} at step {request.get('trip_step', '?')}" if request.get("rule") else ""
    by = f" by {request['author']}" if request.get("author") else ""
    reason = f": {request['reason']}" if request.get("reason") else ""
    said = f" ({answer['reason']})" if answer is not None and answer.get("reason") else ""
    click.echo(printable(f"{request['id'][:8]}  {one.state}{said}  {request['action']}{why}{by}{reason}"))


def _journals(run: str, home: Path | None) -> list[Journal]:
    try:
        return [Journal(path) for path in journals_of(run, home_here(home))]
    except UsageError:  # nothing was decided here about the run: its channel may know of it all the same
        return []


def _noted(journal: Journal, run: str, answers: Mapping[str, Mapping[str, Any]]) -> Iterator[Asked]:
    """The requests that a journal tells of: with the training's answer where there is one, else whether they came there."""
    outcomes = journal.outcomes(run)
    for record in journal.decisions(run):
        for at, deed in enumerate(record.get("deeds", ())):
            try:
                if not registry()[deed["action"]].asks:
                    continue
                request = messages.request(record, at, messages.transition_of(record), REQUEST_LIFETIME).as_dict()
            except (KeyError, TypeError, ValueError):  # a line that another version wrote, or that was damaged
                continue
            became = outcomes.get((record["id"], at))
            states = {"done": "delivered", "failed": "not delivered"}
            answer = None if became is None else {"state": states[became["type"]], "reason": became.get("why", "")}
            yield Asked(request, answers.get(request["id"], answer))
