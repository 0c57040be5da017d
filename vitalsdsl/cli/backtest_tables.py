"""How the findings of a backtest look to people."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vitalsdsl.backtesting.backtest import Backtest
from vitalsdsl.backtesting.outcome import RunOutcome
from vitalsdsl.backtesting.summary import RuleSummary
from vitalsdsl.cli.backtest_plain import MOST, MOST_RULES, level, many, middling, rate, rest, table, words
from vitalsdsl.cli.backtest_scores import curve_table, show_score, show_versus
from vitalsdsl.cli.output import COLOURS
from vitalsdsl.ground.diagnostic import printable

_WIDE = 160
"""The width where no terminal says another."""


def show(found: Backtest) -> None:
    """All of it on standard output."""
    console = Console(file=sys.stdout, highlight=False, width=_width(), emoji=False)
    with console.capture() as captured:
        _all(console, found)
    click.echo("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


def _all(console: Console, found: Backtest) -> None:
    console.print(_heading(found))
    shown = [rule for rule in found.rules if rule.runs] if len(found.rules) > MOST_RULES else found.rules
    if shown:
        console.print(_rules(shown, len(found.runs)))
    if len(shown) < len(found.rules):
        console.print(Text(_quiet([rule for rule in found.rules if not rule.runs], len(found.runs)), "dim"))
    if found.score is None or not found.score.runs:
        _show_runs(console, found.runs)
    else:
        show_score(console, found.score)
    if found.other is not None:
        show_versus(console, found, found.other)
    if found.sweep is not None:
        console.print(curve_table(found, found.sweep.name))
    _show_unread(console, found)


def _width() -> int | None:
    return None if sys.stdout.isatty() else max(_WIDE, shutil.get_terminal_size().columns)


def _heading(found: Backtest) -> Text:
    main = found.main
    runs, steps = len(main.runs), main.steps
    said = f"{printable(main.policy.name)} over {many(runs, 'run')}, {many(steps, 'step')}"
    return Text(said, "bold")


def _quiet(rules: Sequence[RuleSummary], runs: int) -> str:
    """`125 rules never fired, of which 98 are blind on all runs`."""
    blind = sum(rule.blind == runs for rule in rules)
    are = f", of which {blind} {'is' if blind == 1 else 'are'} blind on all runs" if blind else ""
    return f"{many(len(rules), 'rule')} never fired{are}"


def _rules(rules: Sequence[RuleSummary], runs: int) -> Table:
    made = table("rules", ("rule", "yellow", "orange", "red", "runs", "first step", "typical", "per 1,000 steps"))
    for rule in rules:
        blind = f" (blind on {rule.blind})" if rule.blind else ""
        made.add_row(
            words(rule.rule),
            *(Text(f"{times:,}", COLOURS[of.word] if times else "dim") for of, times in rule.times.items()),
            f"{rule.runs:,} of {runs:,}{blind}",
            "" if rule.first is None else f"{rule.first:,}",
            "" if rule.typical is None else middling(rule.typical),
            rate(rule.per_1000),
        )
    return made


def _show_runs(console: Console, runs: Sequence[RunOutcome]) -> None:
    """Those on which something fired, the worst first."""
    fired = [(run, run.worst) for run in runs]
    fired = sorted((one for one in fired if one[1]), key=lambda one: -one[1])
    if not fired:
        console.print(f"on no run a rule fires ({many(len(runs), 'run')})")
        return
    made = table("runs", ("run", "highest", "rules", "at step", "steps"), left=3)
    for run, worst in fired[:MOST]:
        changes = [change for change in run.changes if change.to == worst and change.is_alarm(worst)]
        subjects = list(dict.fromkeys(change.subject for change in changes))
        more = f" and {len(subjects) - 3} more" if len(subjects) > 3 else ""
        at = f"{min(change.step for change in changes):,}" if changes else ""
        made.add_row(words(run.label), level(worst), words(", ".join(subjects[:3]) + more), at, f"{len(run.steps):,}")
    console.print(made)
    console.print(rest(len(fired) - MOST) + f"{many(len(runs) - len(fired), 'run')} green throughout")


def _show_unread(console: Console, found: Backtest) -> None:
    named = [one for one in found.unread if one.is_named]
    others = [one for one in found.unread if not one.is_named]
    for one in named[:MOST]:
        console.print(Text.assemble(("cannot be read: ", "red"), words(one.told)))
    if others:
        console.print(Text(f"passed over, as no log that can be read: {many(len(others), 'file')}", "bold"))
        for one in others[:5]:
            console.print(Text.assemble("  ", words(one.told)))
        if len(others) > 5:
            console.print(f"  {rest(len(others) - 5).rstrip('; ')}")
