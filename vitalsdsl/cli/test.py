"""vitals test: the tests of rules."""

from __future__ import annotations

from pathlib import Path

import click

from vitalsdsl.cli.app import EXIT_FINDINGS, fail
from vitalsdsl.cli.options import form_option
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.policies import rule_files
from vitalsdsl.policies.packs import pack, tests_of_pack
from vitalsdsl.policies.policy_files import is_suite, tests_of
from vitalsdsl.runs.sources import events_of
from vitalsdsl.testing import load_tests, run_tests


@click.command("test")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@form_option
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], form: str) -> None:
    """Run the tests in NAME.vtest.yaml files; for a policy those beside it.

    Of a folder all tests below it are run, of `pack:NAME` those that the pack brings. A transition that a test does not
    list fails it.
    """
    suites = [
        path for name in rule_files.named(files, rule_files.suites_in, "NAME.vtest.yaml") for path in _suites(name)
    ]
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
                click.echo(json_line({**line, "missing": missing, "unexpected": unexpected}))
            elif not result.passed or result.warning:
                click.echo(f"{path}\n  {result}")
    if form == "text":
        click.echo(f"{passed} passed, {failed} failed")
    if failed:
        ctx.exit(EXIT_FINDINGS)


def _suites(name: str) -> list[Path]:
    """The files of tests that a name stands for."""
    if name.startswith("pack:"):
        tests = tests_of_pack(name.removeprefix("pack:"))
        if tests is None:
            fail(f"{name} brings no tests of its own" if pack(name.removeprefix("pack:")) else f"there is no {name}")
        return [tests]
    file = Path(name)
    found = [file] if is_suite(file.name) else tests_of(file)
    if not found:
        fail(f"{name} has no tests: write {file.name.split('.')[0]}.vtest.yaml beside it")
    return found
