"""What people know of runs: which were healthy, and what went wrong on the others from which step on."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from vitalsdsl.backtesting.outcome import RunOutcome
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.source import is_yaml
from vitalsdsl.language.rules import LEVEL_WORDS, Level

HEALTHY = "healthy"
COLUMNS = ("run", "label", "onset", "end", "level", "at_most")
_ALSO = {"path": "run"}
_UNKNOWN = frozenset({"", "-", "?", "unknown", "none", "nan"})
_PART = re.compile(r"(.+)#[0-9]+")


@dataclass(frozen=True)
class Label:
    """One line: a healthy run, or an incident of a kind.

    `onset` is NaN where nobody knows it, `end` infinite where the incident lasts as long as the run. `level` is what it
    should come to at least, `at_most` the highest level that would be right. `place` is the file and line.
    """

    run: str
    kind: str
    onset: float = math.nan
    end: float = math.inf
    level: Level = Level.YELLOW
    at_most: Level = Level.RED
    place: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.kind == HEALTHY

    def begins(self, tolerance: int) -> float:
        """The first step at which an alarm belongs to it: all are before one whose onset is not known."""
        return -math.inf if math.isnan(self.onset) else self.onset - tolerance


@dataclass(frozen=True)
class Labels:
    """The lines of a file, and what to say of it (columns that mean nothing here)."""

    labels: tuple[Label, ...]
    notes: tuple[str, ...] = ()

    def by_run(self, runs: Sequence[RunOutcome]) -> Assigned:
        """Which labels are whose. Raises UsageError where a run would be both healthy and not."""
        assigned = Assigned({run.run: [] for run in runs}, list(self.notes))
        for label in self.labels:
            meant = _meant(label, runs)
            if not meant:
                assigned.notes.append(f"{label.place}: no run is called `{label.run}`")
            for run in meant:
                assigned.labels[run.run].append(label)
        assigned.settle()
        return assigned


@dataclass
class Assigned:
    """The labels of each run, by its name; a run without any is not judged."""

    labels: dict[str, list[Label]]
    notes: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """A name of a file is about all runs in it that have no label of their own; but an incident lies in one."""
        for run, own in self.labels.items():
            part = _PART.fullmatch(run)
            if part is None or own or part[1] not in self.labels:
                continue
            of_file = self.labels[part[1]]
            if of_file and all(label.is_healthy for label in of_file):
                own += of_file
            elif of_file:
                self.notes.append(f"{of_file[0].place}: is about the first run in the file; `{run}` has no label")
        for run, own in self.labels.items():
            if len({label.is_healthy for label in own}) > 1:
                both = " and ".join(dict.fromkeys(label.place for label in own))
                raise UsageError(f"{both}: `{run}` is said to be healthy and not to be")

    @property
    def unlabelled(self) -> int:
        return sum(not own for own in self.labels.values())


def read_labels(path: str | os.PathLike[str]) -> Labels:
    """The labels in a file: a table with tabs or commas between its columns, or in YAML or JSON a list of mappings.

    Columns are `run` (or `path`), `label` (`healthy`, or the kind of incident) and where they are known `onset`, `end`,
    `level` and `at_most`. Raises UsageError, with the line, for what cannot be meant.
    """
    place = Path(path)
    try:
        text = place.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{place} is no text in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {(error.strerror or str(error)).lower()}") from error
    is_listed = is_yaml(place.name) or place.suffix.lower() == ".json"
    rows = list(_listed(text, place) if is_listed else _table(text, place))
    unknown = sorted({str(name) for _, row in rows for name in row} - {*COLUMNS, *_ALSO})
    notes = [f"{place}: `{name}` is not read: columns are {', '.join(COLUMNS)}" for name in unknown]
    return Labels(tuple(_label(row, at) for at, row in rows), tuple(notes))


def _table(text: str, place: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    lines = [(at, line) for at, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    if not lines:
        raise UsageError(f"{place} holds no labels")
    between = "\t" if "\t" in lines[0][1] else ","
    names = [name.strip().lower() for name in _cells(lines[0][1], between)]
    if not {"run", "path"} & set(names) or "label" not in names:
        raise UsageError(
            f"{place}:{lines[0][0]}: the first line names the columns, as `run{between}label{between}onset`"
        )
    for at, line in lines[1:]:
        cells = _cells(line, between)
        if len(cells) > len(names):
            raise UsageError(f"{place}:{at}: {len(cells)} cells under {len(names)} columns")
        yield f"{place}:{at}", dict(zip(names, (cell.strip() for cell in cells)))


def _cells(line: str, between: str) -> list[str]:
    return next(csv.reader(io.StringIO(line), delimiter=between), [])


def _listed(text: str, place: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    try:
        found = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark is not None else ""
        raise UsageError(
            f"{place}{where}: is no YAML: {getattr(error, 'problem', None) or 'it cannot be read'}"
        ) from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise UsageError(f"{place}: write a list, as `- {{run: a.csv, label: diverged, onset: 120}}`")
    for number, row in enumerate(found, 1):
        yield f"{place}, label {number}", {str(name).lower(): _said(value) for name, value in row.items()}


def _said(value: Any) -> str:
    return "" if value is None else str(value)


def _label(row: Mapping[str, str], place: str) -> Label:
    run, kind = row.get("run", "") or row.get("path", ""), row.get("label", "")
    if not run or not kind:
        raise UsageError(f"{place}: `{'label' if run else 'run'}` is missing")
    is_healthy = kind.lower() == HEALTHY
    onset, end = _step(row, "onset", math.nan, place), _step(row, "end", math.inf, place)
    if is_healthy and not (math.isnan(onset) and math.isinf(end) and not row.get("level")):
        raise UsageError(f"{place}: a healthy run has no onset, no end and no level")
    if end < onset:
        raise UsageError(f"{place}: it ends at {end:.0f}, before its onset")
    at_most = _level(row, "at_most", Level.GREEN if is_healthy else Level.RED, place)
    level = _level(row, "level", Level.YELLOW, place)
    if not is_healthy and not Level.GREEN < level <= at_most:
        raise UsageError(f"{place}: an incident comes to yellow at least, and `level` is not above `at_most`")
    return Label(run, HEALTHY if is_healthy else kind, onset, end, level, at_most, place)


def _step(row: Mapping[str, str], name: str, unknown: float, place: str) -> float:
    text = row.get(name, "").strip()
    if text.lower() in _UNKNOWN:
        return unknown
    try:
        step = float(text)
    except ValueError:
        step = math.nan
    if not step.is_integer():
        raise UsageError(f"{place}: `{text}` is no step: leave `{name}` empty where nobody knows it")
    return step


def _level(row: Mapping[str, str], name: str, unsaid: Level, place: str) -> Level:
    word = row.get(name, "").strip().lower()
    if word in _UNKNOWN:
        return unsaid
    if word not in LEVEL_WORDS:
        raise UsageError(f"{place}: `{word}` is no level: write yellow, orange or red")
    return Level.parse(word)


def _meant(label: Label, runs: Iterable[RunOutcome]) -> list[RunOutcome]:
    """The runs that a label is about: those called so or whose path ends so, else those that the pattern fits, else those
    called so but for the ending of a file."""
    pattern = label.run.replace("\\", "/").removeprefix("./")
    named = [(run, [name for name in (run.run, run.name, run.title) if name]) for run in runs]
    for fits in (_is_end_of, _is_pattern_of, _is_stem_of):
        found = [run for run, names in named if any(fits(pattern, name) for name in names)]
        if found:
            return found
    return []


def _is_end_of(pattern: str, name: str) -> bool:
    return name == pattern or name.endswith(f"/{pattern}")


def _is_pattern_of(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")


def _is_stem_of(pattern: str, name: str) -> bool:
    return PurePosixPath(name).name.split(".")[0].lower() == PurePosixPath(pattern).name.lower()
