"""The progress bar, for those who can see one: what draws it is loaded for nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from vitalsdsl.ground.diagnostic import printable

Item = TypeVar("Item")

_OFTEN = 1_000
"""The bar moves once in so many items."""


def can_be_drawn() -> bool:
    """Whether stderr is a terminal, as its settings have it."""
    return Console(stderr=True).is_terminal


def drawn(counted: Iterable[tuple[int, Item]], what: str, total: int | None, after: int) -> Iterator[Item]:
    """Items, each with how many came before it, with a bar once there are many."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = None
        told = 0
        for count, item in counted:
            if task is None and count >= after:
                task = bar.add_task(escape(printable(what)), total=total, completed=count)
            if task is not None and count >= told + _OFTEN:
                told = count
                bar.update(task, completed=count)
            yield item
