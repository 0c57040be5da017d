"""From what was asked for to the places where runs lie: files, however deep in a folder, and the runs of trackers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vitalsdsl.ground.claims import in_full, is_there
from vitalsdsl.ground.errors import UsageError, VitalsError
from vitalsdsl.runs.sources import by_content, folders_in, logs_in, together
from vitalsdsl.watching import feeds

_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})

_OURS = (".journal.jsonl", ".vtest.yaml", ".vitals")
"""How the files end that are our own: a journal has steps, and is no log."""

_EXPLAINED = re.compile(r" \([^()]*\)$")


@dataclass(frozen=True)
class Place:
    """What is read in one piece: a log with one run or several, or one run of a tracker.

    `reference` is what a reader is given, `shown` what people read. `size` is in bytes, 0 where it is not known.
    `identity` changes with the content, or is empty where that cannot be told without reading. `is_named`: it was asked
    for by itself, unlike one that merely lies in a folder; of one that lies deeper, `within` is the way from that folder.
    """

    reference: str
    shown: str
    size: int = 0
    identity: str = ""
    is_named: bool = True
    within: str = ""

    @property
    def is_file(self) -> bool:
        return self.reference.startswith("file:")


@dataclass(frozen=True)
class Unread:
    """A source, or a part of one, that could not be read, and why. `is_named`: it was asked for by itself, unlike a file
    that merely lies in a folder."""

    source: str
    why: str
    is_named: bool = True

    @property
    def told(self) -> str:
        """The source and what is wrong with it, named once; of one that merely lies there, without what that explains.

        >>> Unread("runs/a.jsonl", "`a.jsonl` is empty").told
        'runs/a.jsonl: is empty'
        >>> Unread("runs/a.txt", "`a.txt` is in no known log format (CSV, …)", is_named=False).told
        'runs/a.txt: is in no known log format'
        """
        named = (f"`{Path(self.source).name}` ", f"`{self.source}` ", f"{self.source} ", f"{self.source}: ")
        own = next((text for text in named if self.why.startswith(text)), "")
        why = self.why.removeprefix(own)
        return f"{self.source}: {why if self.is_named else _EXPLAINED.sub('', why)}"


def places_of(
    sources: Iterable[str | os.PathLike[str]], step_key: str | None = None
) -> tuple[list[Place], list[Unread]]:
    """The places behind sources, in order and each once; and what cannot be looked into.

    A folder stands for all logs in it and below; hidden files and folders are passed over. Trackers are asked which runs
    there are, and for no points. Raises UsageError for standard input, which is there but once.
    """
    found: dict[str, Place] = {}
    unread: list[Unread] = []
    for given in sources:
        source = os.fspath(given)
        if source == "-":
            raise UsageError("`-` can be read but once: write it to a file, or use vitals replay")
        try:
            for one in _of(source, step_key):
                if isinstance(one, Unread):
                    unread.append(one)
                else:
                    found.setdefault(one.reference, one)
        except VitalsError as error:
            unread.append(Unread(source, str(error)))
        except OSError as error:
            unread.append(Unread(source, (error.strerror or str(error)).lower()))
    return list(found.values()), unread


def _of(source: str, step_key: str | None) -> Iterator[Place | Unread]:
    path = source.removeprefix("file:")
    if is_there(path):
        place = Path(path)
        yield from _walk(place, step_key) if place.is_dir() else [_log((place,))]
        return
    full = in_full(source)
    if full.partition(":")[0] in feeds.schemes():
        yield from _tracked(full, source, step_key)
    else:
        yield Place(full, source)


def _log(files: Sequence[Path], top: Path | None = None) -> Place:
    """A log of one file, or of several that are one together and are called as their folder is. `top`: it was found
    below this folder."""
    stats = [(os.path.realpath(file), file.stat()) for file in files]
    is_regular = all(file.is_file() for file in files)
    identity = "\n".join(f"{whole}\n{stat.st_size}\n{stat.st_mtime_ns}" for whole, stat in stats) if is_regular else ""
    shown = files[0] if len(files) == 1 else files[0].parent
    above = shown.relative_to(top).parent.as_posix() if top is not None and shown != top else "."
    return Place(
        f"file:{together([whole for whole, _ in stats])}", shown.as_posix(), sum(stat.st_size for _, stat in stats),
        identity, top is None, "" if above == "." else above,
    )  # fmt: skip


def _walk(top: Path, step_key: str | None) -> Iterator[Place | Unread]:
    """All logs below a folder, in the order of their names. A folder that a tracker knows for its own holds its runs."""
    waiting, seen, is_empty = [top], {os.path.realpath(top)}, True
    while waiting:
        folder = waiting.pop()
        try:
            mine = by_content(str(folder))
            if mine is None:
                in_full(str(folder))  # a tracker's store is not walked through: its reader says how it is read
            inside = sorted(folder.iterdir(), key=lambda child: child.name) if mine is None else []
        except (VitalsError, OSError) as error:
            why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
            yield Unread(folder.as_posix(), why, folder == top)
            is_empty = False
            continue
        if mine is not None:
            is_empty = False
            try:
                yield from _tracked(f"{mine}:{folder.absolute()}", folder.as_posix(), step_key)
            except VitalsError as error:
                yield Unread(folder.as_posix(), str(error), folder == top)
        folders, files = [], []
        for child in inside:
            if _is_passed_over(child):
                continue
            real = os.path.realpath(child)
            if child.is_dir() and real not in seen:  # a link that leads back is gone into once
                seen.add(real)
                folders.append(child)
            elif child.is_file():
                is_empty = False
                files.append(child)
        yield from (_log(log, top) for log in logs_in(files))
        waiting += reversed(folders_in(files, folders))
    if is_empty:
        yield Unread(top.as_posix(), "no file lies in this folder")


def _is_passed_over(child: Path) -> bool:
    if child.name in _PASSED_OVER or (child / "pyvenv.cfg").is_file():
        return True
    if child.name.endswith(_OURS) and child.is_file():
        return True
    return child.name.startswith(".") and not (child.is_dir() and by_content(str(child)) is not None)


def _tracked(reference: str, shown: str, step_key: str | None) -> Iterator[Place]:
    """The runs of a tracker, each by a reference of its own."""
    target = feeds.target(reference, feeds.Wanted(finished=True, step_key=step_key))
    try:
        found = target.find()
        runs = [(feed.reference, feed.info) for feed in found]
    finally:
        target.close()
    if not runs:
        raise UsageError(f"`{shown}` has no runs")
    for own, info in runs:
        yield Place(own, info.label, is_named=len(runs) == 1)
