"""vitals init: a first policy that fits recorded runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from vitalsdsl.cli.app import fail
from vitalsdsl.cli.options import step_option
from vitalsdsl.cli.output import progress
from vitalsdsl.cli.packs import CHECKUP
from vitalsdsl.cli.packs import installed as installed_packs
from vitalsdsl.cli.recorded import recordings, surveyed
from vitalsdsl.ground.diagnostic import Diagnostic, Severity, printable
from vitalsdsl.ground.source import is_yaml
from vitalsdsl.ground.survey import Survey
from vitalsdsl.language.rules import Level, Policy, Rule
from vitalsdsl.lints.runs import Alarms, Runs
from vitalsdsl.planning.naming import Vocabulary
from vitalsdsl.planning.sight import Sight
from vitalsdsl.policies.policy import LoadedPolicy, read
from vitalsdsl.starter import FACTOR, Pack, Starter, Tried, taken_for
from vitalsdsl.trial import Trial

_ROUNDS = 4
"""How often the rules are held against the runs at most: to find those at fault, to loosen, to leave out, to see it done."""

_OFTEN = 5
"""A rule of a pack that turns yellow this often in one run is told of: its threshold may not be one for these runs."""


@click.command("init")
@click.argument("sources", nargs=-1, metavar="SOURCE…", required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where to write it."
)
@click.option("--force", is_flag=True, help="Replace FILE where there is one.")
@step_option
def command(sources: tuple[str, ...], output: Path | None, force: bool, step_key: str | None) -> None:
    """Write a first policy that fits recorded runs: their names and cadences, the packs that apply, a handful of rules.

    Above each rule stands what the runs did, beside its threshold, and whether it would have fired on them. A rule that
    turns orange on one of them, though it has no NaN, is loosened or left out, and the text says so. Several
    sources of one project give one policy. It goes to standard output, or with -o to FILE, which is never replaced unasked.
    """
    output = None if output == Path("-") else output
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
    """The policy's text, after each of its rules was held against all the runs: without those that could never know there,
    and silent at orange but where a run has NaN or infinite values."""
    installed = list(installed_packs())
    naming = Vocabulary.of(pack.policy for pack in installed).naming(survey)
    count = sum(run.steps > 0 for run in survey.runs)
    shown = ", ".join(printable(s) for s in sources[:3]) + (" and others" if len(sources) > 3 else "")
    told = f"{count:,} run{'s' * (count != 1)} in {shown}"
    for metric, logged in taken_for(naming).items():
        said = {"loss": "the loss", "grad_norm": "the gradient norm"}[metric]
        click.echo(f"no pack knows `{printable(logged)}`: it is taken for {said}", err=True)
    starter = Starter(name, survey, naming, list(_applying(installed, survey)), told)
    tried, runs = Tried(), Runs(survey)

    def tries(policy: Policy) -> Runs:
        nonlocal runs
        trial = Trial(policy)
        for recording in recordings(sources, step_key, quietly=True):
            for _ in progress(trial.going_through(recording.info, recording.events, True), recording.info.name):
                pass
        runs = trial.result()
        return Runs(runs.survey, runs.rules, healthy=0)

    for _ in range(_ROUNDS):
        loaded, found = read("starter.vitals", text=starter.text(tried), tries=tries)
        if not _refit(tried, loaded, [d for d in found if d.severity is not Severity.INFO], runs):
            break
    own = [name for name, _ in starter.rules(tried) if name not in tried.out]
    tried.did = {name: _did(name, tried, runs, count) for name in own}
    if loaded is not None:
        tried.often = dict(_often(loaded, tried, runs))
    return starter.text(tried)


def _refit(tried: Tried, loaded: LoadedPolicy | None, found: Sequence[Diagnostic], runs: Runs) -> bool:
    """Whether there is a rule to be written otherwise, which is noted: one in which something is found, or one that turns
    orange on runs without a NaN."""
    changed = False
    if loaded is None:
        return changed
    broken = {run.info.label for run in runs.survey.runs if any(m.nans or m.infinities for m in run.metrics.values())}
    for rule in loaded.policy.of(Rule):
        is_own = rule.span.source.name == loaded.reference
        mine = [d for d in found if is_own and d.span.source is rule.span.source and _is_in(d, rule)]
        alarms = runs.rules[rule.name].healthy if rule.name in runs.rules else ()
        fired = [a for a in alarms if Level.parse(a.level) >= Level.ORANGE and a.run not in broken]
        if mine:
            tried.out[rule.name] = f"on these runs it would be of no use ({mine[0].message})."
        elif not fired:
            continue
        elif not is_own:
            tried.off[rule.name] = f"{rule.name} {_fires(fired)}"
        elif rule.name not in tried.looser:
            tried.looser.add(rule.name)
        else:
            tried.out[rule.name] = (
                f"even with a looser threshold it {_fires(fired)} If that run went wrong, it is right."
            )
        changed = True
    return changed


def _is_in(found: Diagnostic, rule: Rule) -> bool:
    return rule.span.start <= found.span.start < rule.span.end


def _fires(alarms: Sequence[Alarms]) -> str:
    """Where a rule turns orange, as the end of a sentence."""
    first = alarms[0]
    more = f", and in {len(alarms) - 1:,} more of these runs" if len(alarms) > 1 else ""
    return f"turns {first.level} at step {first.step:,} of {printable(first.run)}{more}."


def _often(loaded: LoadedPolicy, tried: Tried, runs: Runs) -> Iterator[tuple[str, str]]:
    """The rules of packs that turn yellow again and again on a run, each with how often, as the end of a sentence."""
    for rule in loaded.policy.of(Rule):
        is_silent = rule.span.source.name == loaded.reference or rule.body.shadow or rule.name in tried.off
        alarms = runs.rules[rule.name].healthy if rule.name in runs.rules and not is_silent else ()
        most = max(alarms, key=lambda a: a.times, default=None)
        if most is not None and most.times >= _OFTEN:
            yield rule.name, f"{most.times:,} times in {printable(most.run)}"


def _did(rule: str, tried: Tried, runs: Runs, count: int) -> str:
    """What a rule of its own did on the runs, in a few words."""
    alarms = runs.rules[rule].healthy if rule in runs.rules else ()
    these = "these runs" if count > 1 else "this run"
    looser = f"Looser than is usual, since at {FACTOR:g} times it turned orange. " if rule in tried.looser else ""
    if not alarms:
        return f"{looser}On {these} it never fires."
    first = alarms[0]
    more = f", and in {len(alarms) - 1} more" if len(alarms) > 1 else ""
    return f"{looser}On {these} it fires: {first.level} at step {first.step:,} of {printable(first.run)}{more}."


def _applying(installed: list[LoadedPolicy], survey: Survey) -> Iterator[Pack]:
    """The packs of which half of the rules or more can look at the runs, but for those that are part of another, and for
    the check-list, which is no alarm."""
    found: dict[str, tuple[Pack, LoadedPolicy]] = {}
    for loaded in installed:
        sight = Sight(loaded.policy, survey.metrics)
        rules = loaded.policy.of(Rule)
        able = sum(not sight.lacking(rule) for rule in rules)
        name = loaded.reference.removeprefix("pack:")
        if rules and 2 * able >= len(rules) and name.isidentifier() and loaded.reference != CHECKUP:
            found[name] = Pack(name, able, len(rules)), loaded
    parts = {used.removeprefix("pack:") for _, loaded in found.values() for used in loaded.used}
    yield from (pack for name, (pack, _) in found.items() if name not in parts)
