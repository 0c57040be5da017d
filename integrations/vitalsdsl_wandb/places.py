"""Where W&B keeps runs on a disk: `wandb/run-20260131_120000-ID/run-ID.wandb`, one folder for each process of a run.

Of two that begin in the same second the second one's folder ends in `-1`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from vitalsdsl.ground.errors import SourceError
from vitalsdsl_wandb.framing import BLOCK, HEADER, Frames
from vitalsdsl_wandb.records import Config, Decoder, Exit, HistoryRow, RunFacts

SUFFIX = ".wandb"
FOLDERS = (".wandb", "wandb")
"""What W&B calls its own folder in a script's: the first, where there is one."""

_FOLDER = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-(.+)")
_FILE = re.compile(r"run-(.+)\.wandb")
_SAME_SECOND = re.compile(r"-(\d+)")


def is_run_file(place: Path) -> bool:
    """Whether a path is named as W&B names the files of runs."""
    return place.suffix == SUFFIX


def files_at(place: Path) -> list[Path]:
    """The run files that a path stands for, in the order in which their processes began.

    A file or the folder of a run stands for all files of that run beside it: a run that was resumed has a folder for
    each time. A `wandb` folder, or a folder that holds one, stands for all runs in it. Raises OSError.
    """
    place = place.resolve()
    if place.is_dir():
        children = list(place.iterdir())
        inside = [child for child in children if is_run_file(child)]
        if not inside:
            folders = [child for child in children if names_a_run(child)]
            own = next((place / name for name in FOLDERS if (place / name).is_dir()), None)
            return files_at(own) if own is not None and not folders else _in_order(_in_folders(folders))
        return _in_order({file for one in inside for file in _with_siblings(one)})
    return _in_order(_with_siblings(place))


def names_a_run(place: Path) -> bool:
    """Whether a path is named as W&B names the folder of one run."""
    return _FOLDER.fullmatch(place.name) is not None


def _in_folders(folders: Iterable[Path]) -> list[Path]:
    found = []
    for folder in folders:
        named = _FOLDER.fullmatch(folder.name)
        if named is None:
            continue
        ids = (named[2], re.sub(r"-\d+$", "", named[2]))
        files = (folder / f"run-{id_}{SUFFIX}" for id_ in ids)
        found += [file for file in files if file.is_file()][:1]
    return found


def _with_siblings(file: Path) -> list[Path]:
    """The files of a run, from one of them; it alone, where it does not lie as W&B puts it."""
    folder = file.parent
    named, own = _FOLDER.fullmatch(folder.name), _FILE.fullmatch(file.name)
    if named is None or own is None or not re.fullmatch(re.escape(own[1]) + r"(-\d+)?", named[2]):
        return [file]
    return [other for other in _in_folders(folder.parent.iterdir()) if other.name == file.name]


def _in_order(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=order)


def order(file: Path) -> tuple[str, int, str]:
    """What sorts the files of a run by the start of their processes."""
    return order_of(label(file))


def order_of(name: str) -> tuple[str, int, str]:
    """The same, for the label of a file."""
    folder, _, file = name.partition("/")
    named, own = _FOLDER.fullmatch(folder), _FILE.fullmatch(file)
    if named is None:
        return "", 0, name
    behind = _SAME_SECOND.fullmatch(named[2].removeprefix(own[1])) if own is not None else None
    return named[1], int(behind[1]) if behind is not None else 0, name


def label(file: Path) -> str:
    """What a file is called in messages and cursors: its folder and its name."""
    return f"{file.parent.name}/{file.name}"


def run_id(file: Path) -> str:
    """The run whose file it is, by its name."""
    named = _FILE.fullmatch(file.name)
    return named[1] if named is not None else file.stem


def by_run(files: Iterable[Path]) -> dict[str, list[Path]]:
    """The files of each run, the run that began first first."""
    found: dict[str, list[Path]] = {}
    for file in _in_order(files):
        found.setdefault(run_id(file), []).append(file)
    return found


def facts(file: Path) -> RunFacts | None:
    """What a file says of its run up to its first row; only the id where that is damaged; None as long as there is no
    row, nor an end. Raises SourceError where it is no file of a run, OSError."""
    frames, decoder = Frames(label(file)), Decoder()
    said: RunFacts | None = None
    config: dict[str, object] = {}
    with file.open("rb") as stream:
        while piece := stream.read(BLOCK):
            for record in frames.feed(piece):
                try:
                    found = decoder.decode(record)
                except ValueError:
                    continue
                if isinstance(found, RunFacts):
                    said = said or found
                    config.update(found.config)
                elif isinstance(found, Config):
                    config.update(found.values)
                elif isinstance(found, (HistoryRow, Exit)):
                    return replace(said or RunFacts(run_id(file)), config=config)
    return None


def has_ended(file: Path) -> bool:
    """Whether a file holds the end of its run: W&B writes it last. Raises OSError."""
    size = file.stat().st_size
    begin = max(0, (size // BLOCK - 1) * BLOCK)
    frames, decoder = Frames(label(file), begin, torn=True), Decoder()
    with file.open("rb") as stream:
        stream.seek(begin)
        try:
            return any(isinstance(decoder.decode(record), Exit) for record in frames.feed(stream.read()))
        except (SourceError, ValueError):
            return False


def begun(file: Path) -> bool:
    """Whether anything has been written yet but the mark of the format."""
    return os.stat(file).st_size > HEADER.size  # noqa: PTH116
