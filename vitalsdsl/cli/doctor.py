"""vitals doctor: what is installed and reachable here, and what to install."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

import click

from vitalsdsl import __version__
from vitalsdsl.acting.tracker import Alert
from vitalsdsl.channels import channel_ports
from vitalsdsl.cli.app import EXIT_FINDINGS, fail
from vitalsdsl.cli.options import form_option
from vitalsdsl.configuration import Configuration, configuration, files, looked_in
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import TrackerError, VitalsError
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.language.rules import Level
from vitalsdsl.policies.packs import packs
from vitalsdsl.policies.policy import read
from vitalsdsl.runs.sources import schemes
from vitalsdsl.verdicts.verdict import Transition

_EXTRAS = {"wandb": "wandb", "mlflow": "mlflow", "torch": "torch", "apprise": "notify", "matplotlib": "report"}

GROUP = "vitalsdsl.reachable"
"""Entry points by tracker: each says whether it can be reached as things are set here."""

Look = Callable[[], Iterable[tuple[str, str, str]]]
"""What was looked at, its state as in `Finding`, and what to say of it. Takes seconds at most, and does not raise."""

_TEST = "Messages of rules arrive here. Nothing is wrong: somebody has run `vitals doctor --send-test`."


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `ok`, `absent` (optional and not there) or `bad`."""

    what: str
    state: str
    said: str


@click.command("doctor")
@click.option("--send-test", "channel", metavar="CHANNEL", help="Send a message to a channel of vitals.toml.")
@form_option
@click.pass_context
def command(ctx: click.Context, channel: str | None, form: str) -> None:
    """What is installed and reachable here, and whether the channels have what they need."""
    if channel is not None:
        _send_test(channel)
        return
    findings = list(_look())
    for finding in findings:
        if form == "jsonl":
            click.echo(json_line({"type": "finding", **asdict(finding)}))
        else:
            mark = {"ok": click.style("ok ", fg="green"), "absent": "-  ", "bad": click.style("bad", fg="red")}
            click.echo(f"{mark[finding.state]}  {printable(finding.what):22} {printable(finding.said)}")
    if any(finding.state == "bad" for finding in findings):
        ctx.exit(EXIT_FINDINGS)


def _look() -> Iterator[Finding]:
    yield Finding("vitalsdsl", "ok", __version__)
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    for package, extra in _EXTRAS.items():
        yield _package(package, extra)
    yield Finding("readers", "ok" if schemes() else "bad", ", ".join(sorted(schemes())) or "none: install the wheel")
    yield Finding("packs", "ok" if packs() else "absent", ", ".join(packs()) or "none")
    yield from _trackers()
    yield from _policy()
    yield from _channels()


def _package(package: str, extra: str) -> Finding:
    try:
        return Finding(package, "ok", importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return Finding(package, "absent", f"not installed (optional): pip install 'vitalsdsl[{extra}]'")


def _trackers() -> Iterator[Finding]:
    """Whether each tracker answers, as its integration says."""
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name):
        try:
            look: Look = point.load()
        except ImportError as error:
            missing = f"{error.name or point.name} is not installed (optional): pip install 'vitalsdsl[{point.name}]'"
            yield Finding(point.name, "absent", missing)
            continue
        for what, state, said in look():
            yield Finding(what, state, said)


def _policy() -> Iterator[Finding]:
    name = os.environ.get("VITALS_POLICY")
    if name is None:
        yield Finding("VITALS_POLICY", "absent", "not set (optional): no policy attaches by itself to MLflow runs")
        return
    loaded, found = read(name)
    if loaded is None:
        yield Finding("VITALS_POLICY", "bad", f"{name}: {found[0].message}: see vitals check {name}")
    else:
        yield Finding("VITALS_POLICY", "ok", f"{name}: {loaded.name}, {loaded.digest[:19]}…")


def _channels() -> Iterator[Finding]:
    try:
        found = configuration()
    except VitalsError as error:
        yield Finding("vitals.toml", "bad", str(error))
        return
    there = ", under ".join(str(path) for path in reversed(files()))
    yield Finding("vitals.toml", "ok" if there else "absent", there or f"none (optional){looked_in()}")
    if not found.channels:
        yield Finding("channels", "absent", "none in vitals.toml: `notify` reaches nobody (optional)")
    for name, channel in found.channels.items():
        what = f"channel {name}"
        try:
            channel_ports({name: channel})
        except VitalsError as error:
            yield Finding(what, "bad", str(error))
        else:
            kept = channel.url if channel.secret is None else f"{channel.url}, signed with {channel.secret}"
            yield Finding(what, "ok", f"{kept}, at most {channel.at_most}")


def _send_test(channel: str) -> None:
    """Send a message, and say what became of it. One try, so that what is wrong shows at once."""
    found: Configuration = configuration()
    if channel not in found.channels:
        listed = ", ".join(f"`{name}`" for name in found.channels) or "none"
        fail(f"there is no channel `{channel}`{looked_in()}; there are: {listed}")
    here = platform.node() or "this machine"
    test = Transition("test", 0, "test", None, 0, 0, Level.GREEN, Level.YELLOW, "condition")
    alert = Alert(f"test-{uuid.uuid4()}", f"test: a message from vitals on {here}", _TEST, Level.YELLOW, test)
    try:
        for port in channel_ports({channel: found.channels[channel]}):
            port.notify(channel, alert)
    except TrackerError as error:
        click.echo(printable(str(error)), err=True)
        raise SystemExit(EXIT_FINDINGS) from None
    click.echo(printable(f"a test message has been sent to {channel}"))
