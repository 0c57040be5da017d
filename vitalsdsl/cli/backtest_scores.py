"""How right a policy is, beside another, and as a param varies: as people read it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vitalsdsl.backtesting.backtest import Backtest
from vitalsdsl.backtesting.over import Verdicts
from vitalsdsl.backtesting.score import Incident, LevelScore, Score, Share, quartiles
from vitalsdsl.cli.backtest_plain import MOST, MOST_RULES, level, many, middling, rate, rest, table, words
from vitalsdsl.ground.diagnostic import printable


def show_score(console: Console, score: Score) -> None:
    """Levels, kinds of incident, what was missed, what was false."""
    unlabelled = f", {score.unlabelled:,} without labels" if score.unlabelled else ""
    tolerance = f"; alarms up to {many(score.tolerance, 'step')} before an onset are right" if score.tolerance else ""
    console.print(Text(f"\n{many(score.runs, 'labelled run')}{unlabelled}{tolerance}", "bold"))
    if score.incidents:
        console.print(_found(score.levels))
    console.print(_false(score.levels))
    if score.incidents:
        console.print(_kinds(score.incidents))
    if score.missed:
        console.print(_missed(score.missed))
        if len(score.missed) > MOST:
            console.print(rest(len(score.missed) - MOST).rstrip("; "))
    if score.disturbances:
        _show_false(console, score)
    console.print(_rules(score))


def _found(levels: tuple[LevelScore, ...]) -> Table:
    made = table("what is found", ("from", "found", "recall (95 %)", "delay: median (quartiles)"))
    for one in levels:
        found = f"{one.found:,} of {one.incidents:,}"
        made.add_row(level(one.level), found, share(one.recall), delays(one.quartiles))
    return made


def _false(levels: tuple[LevelScore, ...]) -> Table:
    columns = ("from", "right", "false", "precision (95 %)", "false per 1,000 steps (95 %)", "healthy runs disturbed")
    made = table("what is false", columns)
    for one in levels:
        disturbed = f"{one.disturbed_runs:,} of {one.healthy_runs:,}"
        counts = (f"{one.right:,}", f"{one.wrong:,}")
        made.add_row(level(one.level), *counts, share(one.precision), false_rate(one), disturbed)
    return made


def share(one: Share) -> str:
    """A percentage with its interval, empty where there is nothing that it would be of.

    >>> share(Share(9, 10)), share(Share(0, 0))
    ('90 % (60 … 98)', '')
    """
    if not one.of:
        return ""
    low, high = one.interval
    return f"{100 * one.value:.0f} % ({100 * low:.0f} … {100 * high:.0f})"


def delays(found: tuple[float, float, float] | None) -> str:
    """Steps after the onset, or before it.

    >>> delays((3.0, 12.0, 40.0)), delays((-5, -5, -5)), delays(None)
    ('12 (3 … 40)', '5 before', '')
    """
    if found is None:
        return ""
    low, middle, high = (f"{middling(abs(x))}{' before' if x < 0 else ''}" for x in found)
    return middle if low == high else f"{middle} ({low} … {high})"


def false_rate(one: LevelScore) -> str:
    if not one.healthy_steps:
        return ""
    low, high = one.false_steps.interval
    return f"{rate(one.false_per_1000)} ({rate(1000 * low)} … {rate(1000 * high)})"


def _kinds(incidents: tuple[Incident, ...]) -> Table:
    """What each kind of incident comes to: found at its label's level, how soon, by which rules."""
    kinds: dict[str, list[Incident]] = {}
    for incident in incidents:
        kinds.setdefault(incident.label.kind, []).append(incident)
    made = table("incidents", ("kind", "by rules", "found", "delay: median (quartiles)"), left=2)
    for kind, own in kinds.items():
        rules: dict[str, int] = {}
        for incident in own:
            for rule in incident.rules:
                rules[rule] = rules.get(rule, 0) + 1
        by = ", ".join(f"{rule} {times}" for rule, times in sorted(rules.items(), key=lambda one: -one[1])[:4])
        delay = [d for incident in own if (d := incident.delay(incident.label.level)) is not None]
        found = f"{sum(incident.is_found for incident in own):,} of {len(own):,}"
        made.add_row(words(kind), words(by), found, delays(quartiles(delay)))
    return made


def _missed(missed: list[Incident]) -> Table:
    made = table("missed", ("run", "kind", "wanted", "came to", "onset"), left=4)
    for one in missed[:MOST]:
        onset = "" if one.label.onset != one.label.onset else f"{one.label.onset:,.0f}"
        made.add_row(words(one.run), words(one.label.kind), level(one.label.level), level(one.reached), onset)
    return made


def _show_false(console: Console, score: Score) -> None:
    made = table("false alarms", ("run", "which is", "highest", "rules", "alarms", "first at"), left=4)
    ranked = sorted(score.disturbances, key=lambda one: (-one.worst, -one.count))
    for one in ranked[:MOST]:
        which = "healthy" if one.is_healthy else "not at fault there"
        more = f" and {len(one.rules) - 3} more" if len(one.rules) > 3 else ""
        made.add_row(
            words(one.run), which, level(one.worst), words(", ".join(one.rules[:3]) + more), f"{one.count:,}",
            f"{one.first.step:,}",
        )  # fmt: skip
    console.print(made)
    if len(ranked) > MOST:
        console.print(rest(len(ranked) - MOST).rstrip("; "))


def _rules(score: Score) -> Table:
    """Of a policy of many rules those that alarmed at all: that others never did is told above."""
    columns = ("rule", "right", "false", "incidents found", "by no other")
    made = table(f"rules, from {score.level.word} on", columns)
    is_long = len(score.rules) > MOST_RULES
    for rule in (one for one in score.rules if one.right or one.wrong or not is_long):
        made.add_row(words(rule.rule), f"{rule.right:,}", f"{rule.wrong:,}", f"{rule.found:,}", f"{rule.alone:,}")
    return made


def show_versus(console: Console, found: Backtest, other: Verdicts) -> None:
    """Two policies side by side, then what changes by rule and run by run."""
    console.print(
        Text(f"\n{printable(found.main.policy.reference)} versus {printable(other.policy.reference)}", "bold")
    )
    if found.score is not None and found.other_score is not None:
        console.print(_side_by_side(found.score, found.other_score))
    shown = list(found.shifts)
    if not shown:
        console.print("nothing changes on any run")
        return
    made = table(
        "what changes, by rule", ("rule", "level", "new on", "gone on", "earlier", "later", "later times only"), left=2
    )
    for shift in shown:
        counts = (shift.added, shift.lost, shift.earlier, shift.later, shift.same)
        made.add_row(words(shift.subject), level(shift.level), *(f"{n:,}" if n else "" for n in counts))
    console.print(made)
    made = table("run by run", ("run", "rule", "level", "first at", "versus", "times", "versus"), left=3)
    count = 0
    for count, one in enumerate(found.differences(), 1):
        if count <= MOST:
            steps = ("never" if step is None else f"{step:,}" for step in (one.before, one.after))
            made.add_row(
                words(one.run),
                words(one.subject),
                level(one.level),
                *steps,
                f"{one.times_before:,}",
                f"{one.times_after:,}",
            )
    console.print(made)
    if count > MOST:
        console.print(rest(count - MOST).rstrip("; "))


def _side_by_side(one: Score, two: Score) -> Table:
    columns = ("from", "recall", "versus", "precision", "versus", "false per 1,000 steps", "versus", "delay", "versus")
    made = table("scores", columns)
    for old, new in zip(one.levels, two.levels):
        made.add_row(
            level(old.level), share(old.recall), share(new.recall), share(old.precision), share(new.precision),
            false_rate(old), false_rate(new), delays(old.quartiles), delays(new.quartiles),
        )  # fmt: skip
    return made


def curve_table(found: Backtest, name: str) -> Table:
    """A line for each value of the param: what it finds and what it costs, from a level on."""
    at = found.level
    is_scored = found.score is not None and found.score.runs > 0
    plain = (printable(name), "alarms", "runs", "per 1,000 steps")
    scored = ("recall (95 %)", "delay: median (quartiles)", "false", "false per 1,000 steps (95 %)", "precision (95 %)")
    made = table(f"as {printable(name)} varies, from {at.word} on", (*plain, *(scored if is_scored else ())))
    for point in found.curve:
        cells = [f"{point.times[at]:,}", f"{point.runs[at]:,}", rate(1000 * point.times[at] / max(point.steps, 1))]
        if is_scored and point.score is not None:
            own = point.score.at(at)
            cells += [share(own.recall), delays(own.quartiles), f"{own.wrong:,}", false_rate(own), share(own.precision)]
        made.add_row(words(point.setting), *cells)
    return made
