"""A plain line on stderr now and then while a command is at work, for those who see no bar: a log of a job, a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from vitalsdsl.ground.diagnostic import printable

EVERY = 10.0
"""Seconds from one line to the next; a command that takes less says none."""


@dataclass
class Now:
    """What this process is reading, and how far it is."""

    what: str = ""
    rows: int = 0

    def told(self) -> str:
        """`run.jsonl: 1,200,000 rows read`; nothing where there is nothing to tell."""
        if not self.what:
            return ""
        return f"{self.what}: {self.rows:,} rows read" if self.rows else f"{self.what} is being read"


NOW = Now()


@contextmanager
def heartbeat(told: Callable[[], str] = NOW.told) -> Iterator[None]:
    """While this is open, what is told is said every few seconds, unless stderr is a terminal."""
    if sys.stderr.isatty():
        yield
        return
    over = threading.Event()

    def beat() -> None:
        while not over.wait(EVERY):
            if said := told():
                tell(said)

    thread = threading.Thread(target=beat, name="vitals-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def tell(said: str) -> None:
    """One line on stderr."""
    click.echo(printable(said), err=True)
