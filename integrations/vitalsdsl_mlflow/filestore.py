"""A folder of MLflow's file store (`mlruns`) as a store: a file for each metric, read on from where it ended."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl_mlflow.recent import placed
from vitalsdsl_mlflow.rest import NotThere
from vitalsdsl_mlflow.rows import LoggedPoint
from vitalsdsl_mlflow.stores import Snapshot, fits, restored

KEPT_POINTS = 1_000_000
"""How many points of files that were read and sorted stand in memory, so that the next page need not do it again."""

_STATUS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}


class FileStore:
    """One folder of experiments, with a folder for each run in them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._runs: dict[str, Path] = {}
        self._metas: dict[Path, tuple[int, Snapshot]] = {}
        self._sorted: OrderedDict[tuple[str, str, int], list[LoggedPoint]] = OrderedDict()

    @property
    def uri(self) -> str:
        return f"file://{self._folder}"

    def run(self, run_id: str) -> Snapshot:
        return self._snapshot(self.folder_of(run_id))

    def experiment(self, name: str) -> str:
        for folder in self._experiments():
            found = _meta(folder)
            if name in (str(found.get("name", "")), folder.name):
                return folder.name
        raise NotThere(f"there is no experiment called `{name}` in {self._folder}")

    def experiments(self, pattern: str) -> list[str]:
        return [folder.name for folder in self._experiments() if fits(str(_meta(folder).get("name", "")), pattern)]

    def search(self, experiments: Sequence[str], wanted: Wanted) -> list[Snapshot]:
        folders = [meta.parent for e in experiments for meta in sorted((self._folder / e).glob("*/meta.yaml"))]
        found = [run for run in map(self._described, folders) if run.has(replace(wanted, tags={}))]
        runs = [run for run in map(self._filled, found) if run.has(wanted)]
        return sorted(runs, key=lambda run: run.started)

    def page_url(self, snapshot: Snapshot) -> str:
        return ""

    def reference(self, snapshot: Snapshot) -> str:
        return str(self._folder / snapshot.experiment_id / snapshot.run_id)

    def tail(self, run_id: str, key: str, offset: int, limit: int, mark: Mapping[str, int]) -> list[LoggedPoint]:
        upto = mark.get(key, 0)
        name = (run_id, key, upto)
        points = self._sorted.get(name)
        if points is None:
            points = sorted(dict.fromkeys(self._points(run_id, key, 0, upto)), key=placed)
            self._sorted[name] = points
            while sum(map(len, self._sorted.values())) > KEPT_POINTS and len(self._sorted) > 1:
                self._sorted.popitem(last=False)
        return points[offset : offset + limit]

    def since(self, run_id: str, key: str, first: int, last: int) -> None:
        return None

    def since_of(self, runs: Sequence[str], key: str, first: int, last: int) -> Mapping[str, Sequence[LoggedPoint]]:
        return {}  # what is on this disk is read run by run: there is no way to be saved

    def mark(self, run_id: str) -> dict[str, int]:
        """Of each metric the length of what has been written of it in whole lines."""
        folder = self.folder_of(run_id) / "metrics"
        return {key: _whole_lines(file) for key, file in _files(folder)}

    def fresh(self, run_id: str, mark: Mapping[str, int]) -> tuple[Sequence[LoggedPoint], dict[str, int]]:
        upto = self.mark(run_id)
        found: list[LoggedPoint] = []
        for key, end in upto.items():
            if end > mark.get(key, 0):
                found += self._points(run_id, key, mark.get(key, 0), end)
        return found, upto

    def history(self, run_id: str) -> list[LoggedPoint]:
        """All points of a run by time, step, metric and value, each once."""
        found, _ = self.fresh(run_id, {})
        return [point.point() for point in sorted(set(map(placed, found)))]

    def close(self) -> None:
        self._sorted.clear()

    def _experiments(self) -> list[Path]:
        return sorted(meta.parent for meta in self._folder.glob("*/meta.yaml"))

    def folder_of(self, run_id: str) -> Path:
        """The folder of a run. Raises RunGone where there is none."""
        known = self._runs.get(run_id)
        if known is None or not known.is_dir():
            if not run_id.replace("-", "").isalnum():
                raise RunGone(f"there is no run {run_id} in {self._folder}")
            places = [*self._folder.glob(f"*/{run_id}"), *self._folder.glob(f".trash/*/{run_id}")]
            if not places:
                raise RunGone(f"there is no run {run_id} in {self._folder}")
            self._runs[run_id] = known = places[0]
        return known

    def _snapshot(self, folder: Path) -> Snapshot:
        return self._filled(self._described(folder))

    def _described(self, folder: Path) -> Snapshot:
        """What the run's own file says of it, which is read anew only where it has changed."""
        try:
            changed = (folder / "meta.yaml").stat().st_mtime_ns
        except OSError:
            changed = 0
        known = self._metas.get(folder)
        if known is None or known[0] != changed:
            known = self._metas[folder] = (changed, self._read(folder))
        return known[1]

    def _read(self, folder: Path) -> Snapshot:
        meta = _meta(folder)
        status = meta.get("status", 1)
        return Snapshot(
            run_id=folder.name,
            experiment_id=folder.parent.name,
            status=_STATUS.get(status, str(status)),
            started=int(meta.get("start_time") or 0),
            ended=int(meta.get("end_time") or 0),
            is_deleted=meta.get("lifecycle_stage") == "deleted",
            artifact_uri=str(meta.get("artifact_uri") or ""),
        )

    def _filled(self, run: Snapshot) -> Snapshot:
        """With its tags, params and latest points."""
        folder = self._folder / run.experiment_id / run.run_id
        if run.is_deleted and not folder.is_dir():
            folder = self.folder_of(run.run_id)
        return replace(
            run,
            tags={name: _text(file) for name, file in _files(folder / "tags")},
            params={name: _text(file) for name, file in _files(folder / "params")},
            latest={key: point for key, file in _files(folder / "metrics") if (point := _last(key, file)) is not None},
        )

    def _points(self, run_id: str, key: str, begin: int, end: int) -> Iterator[LoggedPoint]:
        try:
            with (self.folder_of(run_id) / "metrics" / key).open("rb") as file:
                file.seek(begin)
                text = file.read(end - begin).decode("utf-8", "replace")
        except OSError as error:
            raise TrackerError(f"the file of `{key}` cannot be read: {error.strerror}") from None
        for line in text.splitlines():
            yield _point(key, line)


def _point(key: str, line: str) -> LoggedPoint:
    parts = line.split(" ")
    try:
        return LoggedPoint(key, restored(float(parts[1])), int(parts[2]) if len(parts) > 2 else 0, int(parts[0]))
    except (ValueError, IndexError):
        raise TrackerError(f"the file of `{key}` holds a line that is no point: {line[:60]}") from None


def _last(key: str, file: Path) -> LoggedPoint | None:
    """The point that was written last, where there is a whole line."""
    end = _whole_lines(file)
    with file.open("rb") as opened:
        opened.seek(max(0, end - 200))
        lines = opened.read(min(end, 200)).decode("utf-8", "replace").splitlines()
    return _point(key, lines[-1]) if lines else None


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files below a folder by their names in MLflow, which may hold slashes."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(place, name)
            yield file.relative_to(folder).as_posix(), file


def _whole_lines(file: Path) -> int:
    """How many bytes of a file are whole lines: a writer may be in the middle of one."""
    with file.open("rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        while size:
            begin = max(0, size - 4096)
            opened.seek(begin)
            newline = opened.read(size - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            size = begin
    return 0


def _meta(folder: Path) -> dict[str, Any]:
    file = folder / "meta.yaml"
    try:
        found = YAML(typ="safe", pure=True).load(file.read_text("utf-8"))
    except (OSError, YAMLError, UnicodeDecodeError):
        raise TrackerError(f"{file} cannot be read") from None
    return found if isinstance(found, dict) else {}


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "replace")  # line ends as they are
