"""vitals names: what runs log, which metrics that is, which rules can look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from rich.cells import cell_len

from vitalsdsl.cli.options import form_option, step_option
from vitalsdsl.cli.packs import installed as installed_packs
from vitalsdsl.cli.recorded import runs_told, surveyed
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.ground.json_line import json_line
from vitalsdsl.ground.quoting import quoted as in_quotes
from vitalsdsl.ground.survey import MetricSurvey, Survey
from vitalsdsl.language.formatter import name_text
from vitalsdsl.language.rules import Rule
from vitalsdsl.planning.naming import Naming, Unnamed, Vocabulary
from vitalsdsl.planning.sight import Sight
from vitalsdsl.policies.policy import LoadedPolicy, load
from vitalsdsl.verdicts.verdict import spoken

WIDEST_NAME = 48
MOST_LISTED = 200
"""Of names that are no metric."""

MOST_NAMED = 6
"""Of rules, or of metrics, in one line."""


@click.command("names")
@click.argument("sources", nargs=-1, metavar="SOURCE…", required=True)
@click.option(
    "--policy", "policy", metavar="P", help="Map the names by this policy's `metric` lines, not by the packs'."
)
@step_option
@form_option
def command(sources: tuple[str, ...], policy: str | None, step_key: str | None, form: str) -> None:
    """What runs log: each name with the metric that it is here, its cadence, points and range.

    A name that is no metric here is never guessed: what it may be is asked, and what to write if so. Then: names that
    compete for one metric, families, and which rules of each pack (and of the policy) can look at these runs, or not for
    want of what. A SOURCE is what `vitals replay` takes.
    """
    loaded = load(policy) if policy is not None else None
    installed = list(installed_packs())
    survey = surveyed(sources, step_key or (loaded.axis if loaded is not None else None))
    vocabulary = Vocabulary.of([loaded.policy] if loaded is not None else [pack.policy for pack in installed])
    naming = vocabulary.naming(survey)
    seen = list(_seen([*([loaded] if loaded is not None else []), *installed], survey))
    for line in _as_json(survey, naming, seen) if form == "jsonl" else _as_text(survey, naming, seen):
        click.echo(line)


Seen = tuple[str, list[str], dict[tuple[str, ...], list[str]]]
"""A policy's name, its rules that can look, and those that cannot by what they want."""


def _seen(policies: Iterable[LoadedPolicy], survey: Survey) -> Iterator[Seen]:
    for loaded in policies:
        sight = Sight(loaded.policy, survey.metrics)
        able: list[str] = []
        blind: dict[tuple[str, ...], list[str]] = {}
        for rule in loaded.policy.of(Rule):
            lacking = sight.lacking(rule)
            if lacking:
                blind.setdefault(tuple(sorted(lacking)), []).append(rule.name)
            else:
                able.append(rule.name)
        if able or blind:
            yield loaded.reference, able, blind


# -------------------------------------------------------------------- for people


def _as_text(survey: Survey, naming: Naming, seen: list[Seen]) -> Iterator[str]:
    yield from runs_told(survey)
    many = len(survey.runs) > 1
    if naming.named:
        yield ""
        yield from table(
            ("metric", "logged as", "points", "cadence", "range", "median", "notes"),
            [
                (n.canonical if place == 0 else "", shown(logged), *figures(survey.metrics[logged], n.metric.unit, survey))
                for n in naming.named for place, logged in enumerate(n.logged)
            ],
        )  # fmt: skip
    beaten = [(n.canonical, b) for n in naming.named for b in n.beaten]
    if beaten:
        yield from _titled("Of two names the one that comes first is the metric, until the run's end")
        for canonical, b in beaten:
            yield f"  {canonical} is {shown(b.by)} and not {shown(b.name)}: {b.why}"
    if naming.families:
        yield from _titled("Families")
        rows = []
        for f in naming.families:
            first = survey.metrics[f.members[0]]
            what = f"metric {f.metric.name}" if f.metric is not None else "no metric here; rules may name it as it is"
            rows.append((shown(f.path), f"{len(f.members):,} members", str(first.cadence), what))
        yield from table((), rows)
    if naming.counters:
        yield from _titled("The run's own counters")
        yield from table(
            (), [(shown(name), counter, _axis(name, counter)) for name, counter in naming.counters.items()]
        )
    if naming.unnamed:
        yield from _titled("No metric here: rules may name these as they are")
        listed = naming.unnamed[:MOST_LISTED]
        asked = [(shown(u.name), *figures(survey.metrics[u.name], None, survey), _asked(u)) for u in listed]
        yield from table(("", "points", "cadence", "range", "median", "notes", ""), asked)
        if len(naming.unnamed) > MOST_LISTED:
            yield f"  and {len(naming.unnamed) - MOST_LISTED:,} more: --format jsonl lists all"
    yield from _titled(f"Rules that can look at {'these runs' if many else 'this run'}")
    for reference, able, blind in seen:
        yield from _sight_told(reference, able, blind)


def _sight_told(reference: str, able: list[str], blind: dict[tuple[str, ...], list[str]]) -> Iterator[str]:
    """How many rules can look, and what the others want: rule by rule, but in one line for a pack that hardly applies."""
    count = len(able) + sum(map(len, blind.values()))
    head = f"  {printable(reference)}: {len(able)} of {count}"
    if reference.startswith("pack:") and 2 * len(able) < count:
        yield f"{head}, for want of {_some(list(dict.fromkeys(name for lacking in blind for name in lacking)))}"
        return
    yield head
    for lacking, rules in blind.items():
        yield f"    for want of {_some(lacking)}: not {_some(rules)}"


def _axis(name: str, counter: str) -> str:
    """How a logged step becomes the one that rules count, where it is not that already."""
    return f"if rules shall count by it: axis {quoted(name)}" if counter == "step" else ""


def _asked(unnamed: Unnamed) -> str:
    """Whether a name is a metric that it resembles, and what to write if so."""
    if not unnamed.near:
        return ""
    return f"is it {unnamed.near}? then write: metric {name_text(unnamed.near)} = {quoted(unnamed.name)}"


def _titled(title: str) -> Iterator[str]:
    yield ""
    yield click.style(title, bold=True)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(map(shown, names[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


def shown(name: str) -> str:
    """A logged name as people can read it, whatever somebody logged."""
    said = printable(name) or '""'
    return said if len(said) <= WIDEST_NAME else f"{said[: WIDEST_NAME - 13]}…{said[-12:]}"


def quoted(name: str) -> str:
    """A logged name as a policy writes it; what cannot be shown has no way into one."""
    return in_quotes(name) if name.isprintable() else "…  (this name cannot stand in a policy)"


def figures(metric: MetricSurvey, unit: str | None, survey: Survey) -> tuple[str, str, str, str, str]:
    """Points, cadence, range, median, and what is odd."""
    notes = []
    if metric.nans:
        notes.append(f"{metric.nans:,} NaN")
    if metric.infinities:
        notes.append(f"{metric.infinities:,} infinite")
    if len(survey.runs) > 1 and metric.runs < len(survey.runs):
        notes.append(f"in {metric.runs:,} of {len(survey.runs):,} runs")
    extent, median = "", ""
    if metric.finite:
        extent = (
            f"{metric.low:.4g} .. {metric.high:.4g}"
            if metric.low < metric.high
            else f"{'always ' * (metric.finite > 1)}{metric.low:.4g}"
        )
        extent += f" {printable(unit)}" if unit else ""
        median = f"{metric.median:.4g}"
    return f"{metric.points:,}", str(metric.cadence), extent, median, ", ".join(notes)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns that are as wide as what stands in them; one without anything is left out."""
    every = [list(heads), *map(list, rows)] if heads else [list(row) for row in rows]
    body = every[1:] if heads else every
    kept = [c for c in range(len(every[0])) if any(row[c] for row in body)]
    widths = {c: max(cell_len(row[c]) for row in every) for c in kept}
    for place, row in enumerate(every):
        line = "  " + "  ".join(row[c] + " " * (widths[c] - cell_len(row[c])) for c in kept).rstrip()
        yield click.style(line, dim=True) if heads and place == 0 else line


# -------------------------------------------------------------------- for programs


def _as_json(survey: Survey, naming: Naming, seen: list[Seen]) -> Iterator[str]:
    for run in survey.runs:
        yield _line("run", run=run.info.name, title=run.info.title or None, steps=run.steps, first=run.first,
                    last=run.last, attempts=run.attempts, seconds_per_step=_or_none(run.seconds_per_step))  # fmt: skip
    for n in naming.named:
        for logged in n.logged:
            lost = [{"name": b.name, "why": b.why} for b in n.beaten if b.by == logged]
            yield _line("metric", metric=n.canonical, unit=n.metric.unit, beaten=lost, **_figures(survey, logged))
    for f in naming.families:
        declared = f.metric.name if f.metric is not None else None
        yield _line("family", family=f.path, metric=declared, members=list(f.members))
    for name, counter in naming.counters.items():
        yield _line("counter", counter=counter, **_figures(survey, name))
    for u in naming.unnamed:
        yield _line("unmapped", maybe=u.near or None, alias=u.alias or None, **_figures(survey, u.name))
    for reference, able, blind in seen:
        cannot = [{"rules": names, "want": list(lacking)} for lacking, names in blind.items()]
        yield _line("rules", policy=reference, can=able, cannot=cannot)


def _line(kind: str, **fields: Any) -> str:
    return json_line({"type": kind, **fields})


def _figures(survey: Survey, name: str) -> dict[str, Any]:
    m = survey.metrics[name]
    return {
        "logged": name, "runs": m.runs, "points": m.points, "nan": m.nans, "infinite": m.infinities, "first": m.first,
        "last": m.last, "every": _or_none(m.cadence.every), "regular": m.cadence.is_regular, "low": _or_none(m.low),
        "low_step": m.low_step, "median": _or_none(m.median), "high": _or_none(m.high), "high_step": m.high_step,
        "scatter": _or_none(m.scatter), "whole": m.are_whole,
    }  # fmt: skip


def _or_none(value: float) -> float | str | None:
    return None if value != value else spoken(value)
