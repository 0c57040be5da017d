"""vitals demo: a small real training that goes wrong and is brought back."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.ground.errors import MissingExtraError

GROUP = "vitalsdsl.demos"
SCENARIOS = ("rollback", "pause")


@click.command("demo")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("vitals-demo"), help="Where it runs.")
@click.option(
    "--scenario", type=click.Choice(SCENARIOS), default="rollback", show_default=True, help="What is done about it."
)
def command(folder: Path, scenario: str) -> None:
    """Train a small model on data that is poisoned for a while, with a policy and a guard.

    It goes yellow, orange and red, goes back past the poison, and ends as a run on clean data does; or it is paused at
    orange, and goes on at a person's word, `vitals resume`. Leaves the runs in FOLDER/mlflow.db.
    """
    points = {point.name: point for point in entry_points(group=GROUP)}
    if "training" not in points:
        fail("the demo is not installed: install the wheel of vitalsdsl")
    try:
        run = points["training"].load()
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "demo") from error
    run(folder, click.echo, scenario)
