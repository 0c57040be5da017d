"""vitals demo: a small real training run that goes wrong and is caught."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.errors import MissingExtraError

GROUP = "vitalsdsl.demos"


@click.command("demo")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("vitals-demo"), help="Where it runs.")
def command(folder: Path) -> None:
    """Train a small model whose learning rate goes too high, with a policy watching.

    Leaves the run in FOLDER/mlflow.db, with its tags, alerts, policy and transitions.
    """
    points = {point.name: point for point in entry_points(group=GROUP)}
    if "training" not in points:
        fail("the demo is not installed: install the wheel of vitalsdsl")
    try:
        run = points["training"].load()
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "demo") from error
    run(folder, click.echo)
