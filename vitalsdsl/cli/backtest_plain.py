"""The pieces of which the tables of a backtest are made."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from vitalsdsl.cli.output import COLOURS
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.language.rules import Level

MOST = 40
"""How many runs, or other lines of one table, are shown; programs get all."""

MOST_RULES = 20
"""Of a policy of more rules those that never fired are counted, and not listed."""


def many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def table(title: str, columns: Iterable[str], left: int = 1) -> Table:
    """A table whose first columns are words and the others numbers."""
    made = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for at, name in enumerate(columns):
        made.add_column(name, justify="left" if at < left else "right", overflow="fold")
    return made


def middling(step: float) -> str:
    """A step, or what lies halfway between two.

    >>> middling(1200.0), middling(0.5)
    ('1,200', '0.5')
    """
    return f"{step:,.1f}".removesuffix(".0")


def words(text: str, style: str = "") -> Text:
    """What others have written: never taken for markup, and it cannot move the cursor."""
    return Text(printable(text), style)


def level(one: Level) -> Text:
    return Text(one.word, COLOURS[one.word])


def rate(number: float) -> str:
    """A rate with two digits that count.

    >>> rate(0), rate(0.0123), rate(1.25), rate(250.0)
    ('0', '0.012', '1.2', '250')
    """
    return "0" if not number else f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def rest(more: int) -> str:
    return f"and {more:,} more (--format jsonl has all); " if more > 0 else ""
