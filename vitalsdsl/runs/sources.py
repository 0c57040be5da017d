"""Recorded runs by reference: a file, a folder, `-`, or `SCHEME:…` for what an integration reads.

A package that reads binary files or folders of a kind of its own says so by an entry point of the group
`vitalsdsl.contents`, under the name of its reader: they need no scheme then. (A further format of text logs is an entry
point of `vitalsdsl.formats`, for the reader of files.)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitalsdsl.ground.claims import in_full, is_there
from vitalsdsl.ground.errors import MissingExtraError, UsageError
from vitalsdsl.ground.points import Rewind, Row, RunInfo

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("vitalsdsl")

GROUP = "vitalsdsl.sources"
CONTENTS = "vitalsdsl.contents"
HEAD = 4096
"""How much of a file is shown to those who may know it, in bytes."""


_BETWEEN = "\0"
"""Between paths: no path can hold it."""


@dataclass(frozen=True)
class Recording:
    """One recorded run, as a reader found it. One that has not ended is what had been logged by then.

    `events` are its rows and rewinds, in order. They can be gone through again and again, except those of a pipe, which
    are there once: a small run is held in memory, a big one may be read anew each time. What is wrong far into such a
    run shows only then: a `SourceError` may come out of `events`, and further notes are in `late_notes` once they are
    at their end.
    """

    info: RunInfo
    events: Iterable[Row | Rewind]
    late_notes: list[str] = field(default_factory=list)
    is_pipe: bool = False
    """Whether its events come as they are written, and are there once."""


Reader = Callable[..., list[Recording]]

Recognises = Callable[[Path, bytes], bool]
"""Whether a binary file that begins so, or a folder (which begins with nothing), is for the reader of the same name."""


def schemes() -> dict[str, EntryPoint]:
    """The installed readers: `file` for files and folders that no other knows, others by the word before the colon."""
    return {point.name: point for point in _points(GROUP)}


def _points(group: str) -> Iterable[EntryPoint]:
    found: Iterable[EntryPoint] = import_module("importlib.metadata").entry_points(group=group)
    return found  # loaded only here, as in `packs`: tests of policies read no run


def read(reference: str, *, step_key: str | None = None) -> list[Recording]:
    """The runs behind a reference, which may be the address of a run's page. `step_key` is the logged name that is the
    step.

    Raises SourceError where it cannot be read, UsageError where there is no reader for it.
    """
    scheme, rest = _split(reference)
    if scheme == "file" and rest != "-" and not is_there(apart(rest)[0]):
        scheme, rest = _split(in_full(rest))
    if scheme == "file":
        scheme = by_content(rest) or scheme
    point = schemes().get(scheme)
    if point is None:
        known = ", ".join(sorted(schemes())) or "none"
        raise UsageError(f"nothing here reads `{scheme}:` sources (installed readers: {known})")
    try:
        reader: Reader = point.load()
    except ImportError as error:
        raise MissingExtraError(error.name or scheme, scheme) from error
    return reader(rest, step_key=step_key)


def logs_in(files: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Files of one folder as logs. The module of the reader of files may have a function of this name, which says which
    of them are one log together; else each is one by itself."""
    own = _of_the_reader("logs_in")
    logs: list[tuple[Path, ...]] = [(file,) for file in files] if own is None else own(files)
    return logs


def folders_in(files: Sequence[Path], folders: Sequence[Path]) -> list[Path]:
    """Those of one folder's folders that are looked into. The module of the reader of files may have a function of this
    name, which leaves out those whose logs another one repeats, or a file beside them."""
    own = _of_the_reader("folders_in")
    left: list[Path] = list(folders) if own is None else own(files, folders)
    return left


def _of_the_reader(name: str) -> Callable[..., Any] | None:
    """What the module of the reader of files has under a name."""
    point = schemes().get("file")
    return getattr(import_module(point.module), name, None) if point is not None else None


def together(paths: Iterable[str]) -> str:
    """Files that are one log, as what the reader of files is given for them.

    >>> apart(together(["a/events.1", "a/events.2"]))
    ['a/events.1', 'a/events.2']
    """
    return _BETWEEN.join(paths)


def apart(path: str) -> list[str]:
    """The files that were put together; of a plain path, that one."""
    return path.split(_BETWEEN)


def events_of(reference: str) -> Iterator[Row | Rewind]:
    """The rows of all runs behind a reference, one after the other."""
    for recording in read(reference):
        yield from recording.events


def _split(reference: str) -> tuple[str, str]:
    found = re.match(r"([a-z][a-z0-9+]+):", reference)
    if found is None or found[1] == "file":
        return "file", reference.removeprefix("file:")
    is_address = re.match(r"//?[^/]", reference[found.end() :]) is not None
    if is_address and found[1] not in schemes():
        return "file", reference
    return found[1], reference[found.end() :]


def by_content(reference: str) -> str | None:
    """The reader that knows a file or folder; None where none does, and where there is nothing to look at."""
    place = Path(reference)
    try:
        if place.is_file():
            with place.open("rb") as file:
                head = file.read(HEAD)
        elif place.is_dir():
            head = b""
        else:
            return None
    except OSError:
        return None  # the reader of files says what is wrong
    if head and b"\0" not in head:
        return None  # a text log: nobody need be loaded to be asked
    for point in _points(CONTENTS):
        try:
            recognises: Recognises = point.load()
            if recognises(place, head):
                return point.name
        except Exception as error:  # a package that is broken must not keep others from reading
            logger.warning("vitals: %s cannot say whether it reads `%s`: %s", point.value, reference, error)
    return None
