"""vitals report: one page on a run, with curves, incidents and what to try."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.cli.options import loading_options, step_option
from vitalsdsl.cli.output import progress
from vitalsdsl.cli.packs import CHECKUP
from vitalsdsl.cli.recorded import recordings
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.errors import MissingExtraError
from vitalsdsl.policies.policy import load
from vitalsdsl.report.examine import RunReport, examine

DEFAULT = "vitals-report.html"


@click.command("report")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--policy", "policy", default="pack:default", show_default=True, help="The rules to judge by.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help=f"The file to write; else {DEFAULT}, and Markdown to stdout.",
)
@click.option("--format", "form", type=click.Choice(["html", "md"]), default="html", show_default=True)
@loading_options
@step_option
def command(
    sources: Sequence[str],
    policy: str,
    output: Path | None,
    form: str,
    settings: dict[str, str],
    profile: str | None,
    step_key: str | None,
) -> None:
    """Write a page on what happened in a run, or in several: the final report.

    The page is one file that needs no network. It shows the curves with the levels and incidents, gradient norms by layer
    where they were logged, where each metric stands and where it is going, the check-list filled in, and what to try.
    """
    page, to_stdout = _page(), output == Path("-")
    if form == "html" and output is None:
        output = Path(DEFAULT)
    if output is not None and not to_stdout and not _may_be_written(output, page.MADE_BY):
        fail(f"`{output}` is there and no report of ours: name another file with -o")
    loaded, checkup = load(policy, settings=settings, profile=profile), load(CHECKUP)
    reports: list[RunReport] = []
    for recording in recordings(sources, step_key or loaded.axis):
        shown = replace(recording, events=progress(recording.events, recording.info.name))
        reports.append(examine(shown, loaded, checkup))
    if not any(report.rows for report in reports):
        fail("there are no rows to report on")
    text = page.html(reports) if form == "html" else page.markdown(reports)
    if output is None or to_stdout:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as problem:
        fail(f"`{output}` cannot be written: {(problem.strerror or str(problem)).lower()}")
    click.echo(f"{output}: {_said(reports)}", err=True)


def _page() -> Any:
    """What writes pages: its libraries are an extra."""
    try:
        return importlib.import_module("vitalsdsl.report.page")
    except ImportError as error:
        raise MissingExtraError((error.name or "jinja2").partition(".")[0], "report") from error


def _may_be_written(output: Path, made_by: str) -> bool:
    """Whether there is nothing yet, or a report of ours that this one takes the place of."""
    try:
        return not output.exists() or made_by in output.read_text("utf-8", "replace")
    except OSError:
        return True  # writing says what is wrong


def _said(reports: Sequence[RunReport]) -> str:
    worst = max(report.highest for report in reports).word
    runs = "1 run" if len(reports) == 1 else f"{len(reports)} runs"
    count = sum(len(report.incidents) for report in reports)
    told = [text for report in reports for text in report.unrecognised[:1]]
    where = f"in {len(told)} of them " if len(reports) > 1 else ""
    unseen = f"; {where}{printable(told[0])}" if told else ""
    return f"{runs}, {count} incident{'s' * (count != 1)}, at worst {worst}{unseen}"
