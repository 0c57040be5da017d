"""Recorded runs by reference: a file, a folder, `-`, or `SCHEME:…` for what an integration reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from vitalsdsl.errors import MissingExtraError, UsageError
from vitalsdsl.points import Rewind, Row, RunInfo

GROUP = "vitalsdsl.sources"


class Recording(Protocol):
    """One run as a reader found it."""

    @property
    def info(self) -> RunInfo:
        """Its name, its planned length, and what the reader decided."""

    @property
    def events(self) -> Iterable[Row | Rewind]:
        """Its rows and rewinds, in order."""


Reader = Callable[..., "list[Recording]"]


def schemes() -> dict[str, EntryPoint]:
    """The installed readers: `file` for files and folders, others by the word before the colon."""
    return {point.name: point for point in entry_points(group=GROUP)}


def read(reference: str, *, step_key: str | None = None) -> list[Recording]:
    """The runs behind a reference. `step_key` is the logged name that is the step.

    Raises SourceError where it cannot be read, UsageError where there is no reader for it.
    """
    scheme, rest = _split(reference)
    point = schemes().get(scheme)
    if point is None:
        known = ", ".join(sorted(schemes())) or "none"
        raise UsageError(f"nothing here reads `{scheme}:` sources (installed readers: {known})")
    try:
        reader: Reader = point.load()
    except ImportError as error:
        raise MissingExtraError(error.name or scheme, scheme) from error
    return reader(rest, step_key=step_key)


def events_of(reference: str) -> Iterator[Row | Rewind]:
    """The rows of all runs behind a reference, one after the other."""
    for recording in read(reference):
        yield from recording.events


def _split(reference: str) -> tuple[str, str]:
    found = re.match(r"([a-z][a-z0-9+]+):(?!//?[^/])", reference)
    if found is None or found[1] == "file":
        return "file", reference.removeprefix("file:")
    return found[1], reference[found.end() :]
