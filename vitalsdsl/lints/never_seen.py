"""Names that recorded runs never log, or only some of them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vitalsdsl.ground.diagnostic import Diagnostic, Severity
from vitalsdsl.ground.quoting import quoted
from vitalsdsl.language import expressions as ex
from vitalsdsl.language.formatter import name_text
from vitalsdsl.lints.base import Lint, Looked
from vitalsdsl.lints.looked import EVALUATED_SELDOM

if TYPE_CHECKING:
    from vitalsdsl.ground.survey import RunSurvey
    from vitalsdsl.lints.runs import Runs

NEAR = 0.7
"""How alike a name that is suggested has to be."""

MOST_NAMES = 4
"""Of what a metric is called in runs, so many are listed."""


class NeverSeen(Lint):
    """A metric that no run has ever logged: misspelt, or called something else there.

    The rule then reads well and is silent for ever. It is an error where a rule cannot be true without it, else (behind an
    `or`, or in a message alone) a warning. Of what a policy calls `optional`, and of what stands in `surely` alone, nothing is said: a run need not
    log it.
    """

    code = "V301"
    severity = Severity.ERROR
    logged = ({"grad_norm": ("1 x50", 1)},)
    bad = "when grad_nrom > 3 -> yellow"
    good = "when grad_norm > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.runs is None or not at.runs.count:
            return
        for path, name in at.read_here.items():
            declared = at.declared(path)
            is_optional = declared is not None and declared.optional
            if isinstance(name, ex.Family) or is_optional or _runs_with(path, at):
                continue
            is_needed = any(path in seen.lacking for seen in at.runs.rules.values())
            told = f"no run has ever logged `{name_text(path)}` ({at.runs.told()})"
            found = self.found(told, name.span, "never logged", _instead(path, at, at.runs))
            yield found if is_needed else replace(found, severity=Severity.WARNING)
        for path, said in at.said_here.items():
            declared = at.declared(path)
            if (
                path not in at.read_here
                and not (declared is not None and declared.optional)
                and not _runs_with(path, at)
            ):
                told = f"no run has ever logged `{name_text(path)}`, which a message names ({at.runs.told()})"
                found = self.found(told, said.span, "never logged", _instead(path, at, at.runs))
                yield replace(found, severity=Severity.WARNING)


class EmptyFamily(Lint):
    """A family of which no run has ever logged a member: a rule over it looks at nothing.

    A `*` stands for the rest of one segment: `act/*` is `act/layer_3` and not `act/layer_3/absmax`.
    """

    code = "V316"
    logged = ({"act/layer_0/absmax": ("1 x50", 1), "act/layer_1/absmax": ("1 x50", 1)},)
    bad = "when max(act/layer_*) > 3 -> yellow"
    good = "when max(act/layer_*/absmax) > 3 -> yellow"

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.runs is None or not at.runs.count:
            return
        for path, name in at.read_here.items():
            declared = at.declared(path)
            if not isinstance(name, ex.Family) or declared is not None and declared.optional or _runs_with(path, at):
                continue
            near = _nearest(path.replace("*", "0"), at.runs.survey.metrics)
            hint = f"there is `{near}`: a `*` stands for the rest of one segment" if near else ""
            yield self.found(f"no run has ever logged a member of `{path}` ({at.runs.told()})", name.span, "matches nothing",
                             hint or "`vitals names SOURCE` lists what there is")  # fmt: skip


class SometimesSeen(Lint):
    """A metric that only some runs log, though all went on for long enough: on the others its rules are silent.

    It may be switched off by a setting, or have been renamed at some time. Say `optional` where that is as it should be,
    or give both names.
    """

    code = "V302"
    logged = ({"loss": ("2 x50", 1), "aux": ("1 x50", 1)}, {"loss": ("2 x50", 1)})
    bad = "when loss > 3 and aux > 3 -> yellow"
    good = 'metric aux = "aux" optional\nwhen loss > 3 and aux > 3 -> yellow'

    def look(self, at: Looked) -> Iterable[Diagnostic]:
        if at.runs is None:
            return
        for path, name in at.read_here.items():
            declared = at.declared(path)
            with_it = _runs_with(path, at)
            if not with_it or declared is not None and declared.optional:
                continue
            late = max(m.first - run.first for run in with_it for m in at.logged(path, run)[:1])
            known = {run.info.name for run in with_it}
            due = [run for run in at.runs.survey.runs if run.steps and run.last - run.first >= late]
            lacking = [run for run in due if run not in with_it]
            if lacking and known:
                shown = name_text(path) if isinstance(name, ex.Name) else path
                other = "" if isinstance(name, ex.Family) else _other_name(path, at, at.runs, lacking)
                yield self.found(
                    f"`{shown}` is logged in {len(with_it)} of {len(with_it) + len(lacking)} runs", name.span,
                    f"not in {lacking[0].info.label}", other or f"say `optional` in `metric {shown} = …`, or give the name "
                    "that it has there",
                )  # fmt: skip


def _runs_with(path: str, at: Looked) -> list[RunSurvey]:
    return [run for run in at.runs.survey.runs if at.logged(path, run)] if at.runs is not None else []


def _instead(path: str, at: Looked, runs: Runs) -> str:
    """What may be meant by a name that nothing logs."""
    declared = at.scope.metrics.get(path)
    listed = declared.logged if declared is not None else ()
    if declared is None:
        own = difflib.get_close_matches(path, [n for n in at.scope.metrics if _runs_with(n, at)], 1, NEAR)
        if own:
            return f"did you mean `{own[0]}`, which `metric {own[0]}` declares?"
    other = _other_name(path, at, runs, [run for run in runs.survey.runs if run.steps])
    if other:
        return other
    near = next((n for tried in (path, *listed) if (n := _nearest(tried, runs.survey.metrics))), "")
    if not near:
        return f'if it is new, declare it: `metric {name_text(path)} = "{path}" optional`'
    metric = runs.survey.metrics[near]
    seen = f"{metric.runs} of {runs.count} runs, {metric.cadence}"
    if declared is not None:
        names = ", ".join(map(quoted, (*declared.logged, near)))
        return f"is it `{near}` ({seen})? then write `metric {name_text(path)} = {names}`"
    return f"did you mean `{name_text(near)}` ({seen})?"


def _other_name(path: str, at: Looked, runs: Runs, lacking: Sequence[RunSurvey]) -> str:
    """What to write for a name that is one of a metric's, where runs without it log another; empty where none does."""
    canonical, names = runs.also_called(path)
    counts = {n: sum(n in run.metrics for run in lacking) for n in names if n != path}
    logged = sorted((n for n in counts if counts[n]), key=lambda n: -counts[n])[:MOST_NAMES]
    if not logged:
        return ""
    declared = at.scope.metrics.get(path)
    seen = "there" if len(lacking) < runs.count else f"({counts[logged[0]]} of {runs.count} runs)"
    if declared is not None or path == canonical:
        own = declared.logged if declared is not None else (path,)
        listed = ", ".join(map(quoted, (*own, *logged)))
        write = f'`metric {name_text(path)} = {listed}`, or `use "pack:names"`'
    else:
        write = f'`use "pack:names"` and `{name_text(canonical)}`, which is both'
    return f"it is called `{logged[0]}` {seen}: write {write}"


def _nearest(name: str, logged: Collection[str]) -> str:
    """The logged name that is most like one: of those with the same last segment, else by its letters, or by those of its
    last segment. An evaluation's is taken only for an evaluation's where there is another."""
    known = sorted(logged)
    end = _end(name)
    close = difflib.get_close_matches(name, known, 3, NEAR)
    found = [n for n in known if _end(n) == end] or close
    if not found:
        ends = difflib.get_close_matches(end, sorted({_end(n) for n in known}), 1, NEAR)
        found = [n for n in known if _end(n) in ends]
    return min(found, key=lambda n: (_is_evaluated(n) != _is_evaluated(name), -_likeness(name, n), len(n)), default="")


def _end(name: str) -> str:
    return name.rsplit("/", 1)[-1].lower()


def _is_evaluated(name: str) -> bool:
    return EVALUATED_SELDOM.search(name) is not None


def _likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b).ratio()
