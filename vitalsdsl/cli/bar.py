"""The progress bar, for those who can see one: what draws it is loaded for nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from vitalsdsl.ground.diagnostic import printable

Item = TypeVar("Item")


def can_be_drawn() -> bool:
    """Whether stderr is a terminal, as its settings have it."""
    return Console(stderr=True).is_terminal


def drawn(items: Iterable[Item], what: str, total: int | None, after: int) -> Iterator[Item]:
    """The items, with a bar from the one with the number `after` on."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = None
        for count, item in enumerate(items):
            if count == after:
                task = bar.add_task(escape(printable(what)), total=total, completed=count)
            if task is not None and count % 1000 == 0:
                bar.update(task, completed=count)
            yield item
