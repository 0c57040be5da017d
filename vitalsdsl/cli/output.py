"""How commands write: lines for people, JSON lines for programs, a progress bar only for those who can see it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import click

from vitalsdsl.cli.heartbeat import NOW
from vitalsdsl.ground.diagnostic import printable
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.verdicts.verdict import Transition

COLOURS = {"green": "green", "yellow": "yellow", "orange": "bright_red", "red": "red"}

Item = TypeVar("Item")


def coloured(level: str) -> str:
    """A level in its colour (click takes the colour off where the output is no terminal)."""
    return click.style(level, fg=COLOURS[level], bold=level in ("orange", "red"))


def transition_line(transition: Transition) -> str:
    """`step 519  green -> orange  grad_norm_orange  …`."""
    rule = transition.rule if transition.member is None else f"{transition.rule}[{transition.member}]"
    change = f"{coloured(transition.from_.word)} -> {coloured(transition.to.word)}"
    attempt = f" (attempt {transition.attempt})" if transition.attempt else ""
    return f"step {transition.step:>7}{attempt}  {change}  {printable(rule)}: {printable(transition.message)}"


def progress(
    items: Iterable[Item],
    what: str,
    total: int | None = None,
    after: int = 20_000,
    rows_of: Callable[[Item], int] | None = None,
) -> Iterator[Item]:
    """The items, with a bar on stderr once there are many of them, if stderr is a terminal; else they are counted for the
    line that is said now and then. `rows_of` says of an item that stands for many, how many."""
    bar = importlib.import_module("vitalsdsl.cli.bar") if sys.stderr.isatty() else None
    if bar is not None and bar.can_be_drawn():
        yield from bar.drawn(_counted(items, rows_of), what, total, after)
        return
    NOW.what, NOW.rows = what, 0
    for count, item in _counted(items, rows_of):
        if rows_of is not None or count % 1000 == 0:
            NOW.rows = count
        yield item


def _counted(items: Iterable[Item], rows_of: Callable[[Item], int] | None) -> Iterator[tuple[int, Item]]:
    """Each item with how many came before it."""
    if rows_of is None:
        yield from enumerate(items)
        return
    count = 0
    for item in items:
        yield count, item
        count += rows_of(item)


class Remarks:
    """What there is to say of runs beside their results, on stderr: each once for a command, with how many it is true of."""

    def __init__(self) -> None:
        self.runs = 0
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, what: str, text: str) -> None:
        """Of the run at hand: `never logged`, and what."""
        self._counts[what, text] = self._counts.get((what, text), 0) + 1

    def tell(self) -> None:
        """All of them, the first that came up first."""
        for (what, text), count in self._counts.items():
            many = f" in {count:,} of {self.runs:,} runs" if self.runs > 1 else ""
            click.echo(f"  {what}{many}: {printable(text)}", err=True)


def warn_of_other_meaning(loaded: LoadedPolicy) -> None:
    """Say so where a copy is read as something else than what was noted beside it."""
    if loaded.noted_digest and loaded.noted_digest != loaded.digest:
        message = (
            f"{loaded.reference}: this copy means {loaded.digest[:19]}…, and {loaded.noted_digest[:19]}… is noted "
            "beside it: it does not stand alone, or was written by another version"
        )
        click.echo(f"warning: {printable(message)}", err=True)
