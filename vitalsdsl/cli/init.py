"""vitals init: a first policy that fits recorded runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.cli.options import step_option
from vitalsdsl.cli.packs import installed as installed_packs
from vitalsdsl.cli.recorded import recordings, surveyed
from vitalsdsl.ground.diagnostic import Severity, printable
from vitalsdsl.ground.source import is_yaml
from vitalsdsl.ground.survey import Survey
from vitalsdsl.language.rules import Policy, Rule
from vitalsdsl.lints.runs import Alarms, Runs
from vitalsdsl.planning.naming import Vocabulary
from vitalsdsl.planning.sight import Sight
from vitalsdsl.policies.policy import LoadedPolicy, read
from vitalsdsl.starter import Pack, Starter
from vitalsdsl.trial import Trial


@click.command("init")
@click.argument("sources", nargs=-1, metavar="SOURCE…", required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where to write it."
)
@click.option("--force", is_flag=True, help="Replace FILE where there is one.")
@step_option
def command(sources: tuple[str, ...], output: Path | None, force: bool, step_key: str | None) -> None:
    """Write a first policy that fits recorded runs: their names and cadences, the packs that apply, a handful of rules.

    Above each rule stands what the runs did, beside its threshold, and whether it would have fired on them. Several
    sources of one project give one policy. It goes to standard output, or with -o to FILE, which is never replaced unasked.
    """
    if output is not None and output.exists() and not force:
        fail(f"{output} is there already: name another file, or say --force to replace it")
    if output is not None and is_yaml(output.name):
        fail(f"what is written is the vitals language: call it {output.with_suffix('.vitals').name}")
    if "-" in sources:
        fail("the runs are read twice: save standard input as a file first")
    survey = surveyed(sources, step_key)
    text = _written(_name(sources, output), sources, survey, step_key)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {(error.strerror or str(error)).lower()}")
    click.echo(f"{output} is written; go on with: vitals check {output} --against {' '.join(sources)}")


def _name(sources: tuple[str, ...], output: Path | None) -> str:
    """The name of the policy: of the file that it goes to, or else of the first source."""
    if output is not None:
        return output.name.split(".")[0]
    return Path(sources[0].rstrip("/")).name.split(".")[0] or "run"


def _written(name: str, sources: tuple[str, ...], survey: Survey, step_key: str | None) -> str:
    """The policy's text, after it was tried on the runs: without the rules that could never know there."""
    installed = list(installed_packs())
    naming = Vocabulary.of(pack.policy for pack in installed).naming(survey)
    count = sum(run.steps > 0 for run in survey.runs)
    shown = ", ".join(printable(s) for s in sources[:3]) + (" and others" if len(sources) > 3 else "")
    told = f"{count:,} run{'s' * (count != 1)} in {shown}"
    starter = Starter(name, survey, naming, list(_applying(installed, survey)), told)
    without: set[str] = set()
    alarms: dict[str, tuple[Alarms, ...]] = {}

    def tries(policy: Policy) -> Runs:
        trial = Trial(policy)
        for recording in recordings(sources, step_key, quietly=True):
            trial.take(recording.info, recording.events, healthy=True)
        runs = trial.result()
        alarms.update({name: seen.healthy for name, seen in runs.rules.items()})
        return Runs(runs.survey, runs.rules, healthy=0)

    text = starter.text()
    for _ in range(3):
        loaded, found = read("starter.vitals", text=text, tries=tries)
        found = [d for d in found if d.severity is not Severity.INFO]
        if not found:
            break
        spans = [(r.span, r.name) for r in loaded.policy.of(Rule)] if loaded is not None else []
        at_fault = {n for s, n in spans for d in found if s.source is d.span.source and s.start <= d.span.start < s.end}
        without |= at_fault
        text = starter.text(without)
    own = [name for name, _ in starter.rules() if name not in without]
    return starter.text(without, {name: _did(alarms.get(name, ()), count) for name in own})


def _did(alarms: tuple[Alarms, ...], count: int) -> str:
    """What a rule did on the runs, in a few words."""
    runs = "these runs" if count > 1 else "this run"
    if not alarms:
        return f"On {runs} it never fires."
    first = alarms[0]
    more = f", and in {len(alarms) - 1} more" if len(alarms) > 1 else ""
    return f"On {runs} it fires: {first.level} at step {first.step:,} of {printable(first.run)}{more}."


def _applying(installed: list[LoadedPolicy], survey: Survey) -> Iterator[Pack]:
    """The packs of which half of the rules or more can look at the runs, but for those that are part of another."""
    found: dict[str, tuple[Pack, LoadedPolicy]] = {}
    for loaded in installed:
        sight = Sight(loaded.policy, survey.metrics)
        rules = loaded.policy.of(Rule)
        able = sum(not sight.lacking(rule) for rule in rules)
        name = loaded.reference.removeprefix("pack:")
        if rules and 2 * able >= len(rules) and name.isidentifier():
            found[name] = Pack(name, able, len(rules)), loaded
    parts = {used.removeprefix("pack:") for _, loaded in found.values() for used in loaded.used}
    yield from (pack for name, (pack, _) in found.items() if name not in parts)
