"""vitals check: what is wrong with a policy, and what to write instead."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vitalsdsl.cli.app import EXIT_FINDINGS, fail
from vitalsdsl.cli.options import TakesMany, step_option
from vitalsdsl.ground.diagnostic import Diagnostic, Severity, render
from vitalsdsl.ground.errors import VitalsError
from vitalsdsl.language.rules import Policy
from vitalsdsl.lints.base import explain
from vitalsdsl.policies import rule_files
from vitalsdsl.policies.policy import read
from vitalsdsl.policies.policy_files import standard_input, tests_of
from vitalsdsl.policies.references import is_elsewhere

if TYPE_CHECKING:
    from vitalsdsl.lints.runs import Runs, Tries


@click.command("check", cls=TakesMany)
@click.argument("files", nargs=-1, metavar="FILE…")
@click.option("--against", multiple=True, metavar="SOURCE…", help="Recorded runs: are its names and cadences theirs?")
@click.option("--healthy", multiple=True, metavar="SOURCE…", help="Runs that were fine: nothing should fire on them.")
@step_option
@click.option("--format", "form", type=click.Choice(["text", "json", "github", "sarif"]), default="text")
@click.option("--explain", "code", metavar="CODE", help="What a code means, with a bad and a good example.")
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    against: tuple[str, ...],
    healthy: tuple[str, ...],
    step_key: str | None,
    form: str,
    code: str | None,
) -> None:
    """Check policies: several findings a file, each with its place and its mend.

    `-` reads standard input; of a folder all policies below it are checked.
    Exits 1 where there is an error or a warning.

    With --against a policy without errors is held against recorded runs (what `vitals replay` takes): names that they
    never log, windows and spans that do not go with how often they log, rules that can never know. --healthy is the same
    for runs that were fine, and tells of the rules that would have fired there. Both take all words up to the next option.
    """
    if code is not None:
        try:
            click.echo(explain(code.upper()))
        except KeyError:
            fail(f"there is no code {code}: codes look like V104")
        return
    if not files:
        fail("no file given: vitals check FILE… [--against SOURCE…]")
    found: list[Diagnostic] = []
    files = tuple(rule_files.named(files, rule_files.policies_in, "policy"))
    tries = None
    if against or healthy:
        piped = (*against, *healthy).count("-")
        if piped > 1 or piped and (len(files) > 1 or "-" in files):
            fail("standard input can be read once: as the one policy, or as the runs of one policy")
        tries = _tries(against, healthy, step_key)
    for name in files:
        found += _findings(name, tries)
    if form != "text" or found:
        click.echo(render(found, form))
    _summary(found, len(files), form)
    if any(d.severity is not Severity.INFO for d in found):
        ctx.exit(EXIT_FINDINGS)


def _tries(against: tuple[str, ...], healthy: tuple[str, ...], step_key: str | None) -> Tries:
    """What says what the runs say of a policy. What reads and evaluates them is loaded only for those who ask."""

    def tries(policy: Policy) -> Runs:
        found: Runs = importlib.import_module("vitalsdsl.cli.recorded").tried(policy, against, healthy, step_key)
        return found

    return tries


def _findings(name: str, tries: Tries | None) -> list[Diagnostic]:
    """What is wrong with one policy; `-` is the one on standard input."""
    if name == "-":
        source = standard_input()
        if isinstance(source, Diagnostic):
            return [source]
        return read(source.name, text=source.text, channels=_channels, tries=tries)[1]
    if not is_elsewhere(name) and not Path(name).is_file():
        fail(f"{name} is no file" if Path(name).exists() else f"there is no file {name}")
    return read(name, tested=_tested(name), channels=_channels, tries=tries)[1]


def _channels() -> frozenset[str] | None:
    """The channels that are configured here. What reads them is loaded only for a policy that sends messages."""
    known: frozenset[str] | None = importlib.import_module("vitalsdsl.configuration").known_channels()
    return known


def _tested(name: str) -> dict[str, set[str]] | None:
    """What the tests beside a policy cover; None where it has none. The evaluator is loaded only where it has some."""
    suites = tests_of(Path(name)) if not is_elsewhere(name) else []
    if not suites:
        return None
    testing, sources = (importlib.import_module(f"vitalsdsl.{name}") for name in ("testing", "runs.sources"))
    try:
        results = [r for path in suites for r in testing.run_tests(testing.load_tests(path), sources.events_of)]
        seen: dict[str, set[str]] = testing.tested_rules(results)
        return seen
    except VitalsError:
        return None  # `vitals test` says what is wrong with them


def _summary(found: list[Diagnostic], files: int, form: str) -> None:
    if form != "text":
        return
    counts = {s: sum(d.severity is s for d in found) for s in Severity}
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "hint"}
    said = ", ".join(f"{n} {words[s]}{'s' * (n != 1)}" for s, n in counts.items() if n)
    what = f"{files} file{'s' * (files != 1)}"
    click.echo(f"\n{what}: {said}" if said else f"{what}: no findings", err=bool(said))
