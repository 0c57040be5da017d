"""vitals doctor: what is installed and reachable here, and what to install."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from vitalsdsl import __version__
from vitalsdsl.cli.app import EXIT_FINDINGS
from vitalsdsl.packs import packs
from vitalsdsl.policy import read
from vitalsdsl.sources import schemes

_EXTRAS = {"wandb": "wandb", "mlflow": "mlflow", "torch": "torch"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `ok`, `absent` (optional and not there) or `bad`."""

    what: str
    state: str
    said: str


@click.command("doctor")
@click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text")
@click.pass_context
def command(ctx: click.Context, form: str) -> None:
    """What is installed and reachable here."""
    findings = list(_look())
    for finding in findings:
        if form == "jsonl":
            click.echo(json.dumps({"type": "finding", **asdict(finding)}))
        else:
            mark = {"ok": click.style("ok ", fg="green"), "absent": "-  ", "bad": click.style("bad", fg="red")}
            click.echo(f"{mark[finding.state]}  {finding.what:22} {finding.said}")
    if any(finding.state == "bad" for finding in findings):
        ctx.exit(EXIT_FINDINGS)


def _look() -> Iterator[Finding]:
    yield Finding("vitalsdsl", "ok", __version__)
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    for package, extra in _EXTRAS.items():
        yield _package(package, extra)
    yield Finding("readers", "ok" if schemes() else "bad", ", ".join(sorted(schemes())) or "none: install the wheel")
    yield Finding("packs", "ok" if packs() else "absent", ", ".join(packs()) or "none")
    yield from _mlflow_server()
    yield from _wandb_login()
    yield from _policy()


def _package(package: str, extra: str) -> Finding:
    try:
        return Finding(package, "ok", importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return Finding(package, "absent", f"not installed (optional): pip install 'vitalsdsl[{extra}]'")


def _mlflow_server() -> Iterator[Finding]:
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri.startswith(("http://", "https://")):
        yield Finding(
            "MLFLOW_TRACKING_URI", "ok" if uri else "absent", uri or "not set (optional): MLflow uses its own default"
        )
        return
    try:
        with urllib.request.urlopen(uri.rstrip("/") + "/health", timeout=3) as answer:
            yield Finding("MLFLOW_TRACKING_URI", "ok", f"{uri} answers ({answer.status})")
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        yield Finding("MLFLOW_TRACKING_URI", "bad", f"{uri} does not answer: {reason}")


def _wandb_login() -> Iterator[Finding]:
    mode = os.environ.get("WANDB_MODE", "online")
    if mode != "online":
        yield Finding("WANDB_MODE", "ok", f"{mode}: alerts are kept and sent at `wandb sync`")


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
