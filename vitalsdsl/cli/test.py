"""vitals test: the tests of rules."""

from __future__ import annotations

import json
from pathlib import Path

import click

from vitalsdsl.cli.app import EXIT_FINDINGS, fail
from vitalsdsl.reading import tests_of
from vitalsdsl.sources import events_of
from vitalsdsl.testing import load_tests, run_tests


@click.command("test")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text")
@click.pass_context
def command(ctx: click.Context, files: tuple[Path, ...], form: str) -> None:
    """Run the tests in NAME.vtest.yaml files; for a policy those beside it.

    A transition that a test does not list fails it.
    """
    suites: list[Path] = []
    for file in files:
        found = [file] if file.name.endswith((".vtest.yaml", ".vtest.yml")) else tests_of(file)
        if not found:
            fail(f"{file} has no tests: write {file.name.split('.')[0]}.vtest.yaml beside it")
        suites += found
    passed = failed = 0
    for path in suites:
        suite = load_tests(path)
        for result in run_tests(suite, events_of):
            passed += result.passed
            failed += not result.passed
            if form == "jsonl":
                unexpected = [t.as_dict() for t in result.unexpected]
                missing = [str(e) for e in result.missing]
                line = {"type": "test", "file": str(path), "name": result.test.name, "passed": result.passed}
                click.echo(json.dumps({**line, "missing": missing, "unexpected": unexpected}))
            elif not result.passed or result.warning:
                click.echo(f"{path}\n  {result}")
    if form == "text":
        click.echo(f"{passed} passed, {failed} failed")
    if failed:
        ctx.exit(EXIT_FINDINGS)
