"""What can be watched of MLflow: one run, or the runs of an experiment, in whatever store MLflow is set to."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.claims import is_there
from vitalsdsl.ground.errors import NotYet, RunGone, TrackerError, UsageError
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl_mlflow.address import EXPERIMENTS, place_of
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.fleet import Fleet
from vitalsdsl_mlflow.folders import recognises, store_at
from vitalsdsl_mlflow.outside import ports_for
from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.rest import NotThere, Rest
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.sqlite import SqliteStore
from vitalsdsl_mlflow.stores import Snapshot, Store

WIDE_S = 25.0
"""Seconds between two looks for runs that have ended meanwhile, and for experiments that a pattern fits."""

MARGIN_S = 600.0
"""How much earlier, in seconds, a run may say that it ended: it goes by the clock of the machine that trains."""


def store_of(uri: str) -> Store:
    """The store behind a tracking URI. Raises UsageError where there is no way to it without MLflow."""
    scheme = urlsplit(uri).scheme
    if scheme in ("http", "https"):
        return Server(Rest(uri))
    if scheme == "sqlite":
        return SqliteStore(_sqlite_file(uri))
    if scheme == "file":
        return FileStore(_existing(Path(unquote(urlsplit(uri).path))))
    if "://" not in uri and (not scheme or len(scheme) == 1):
        return FileStore(_existing(Path(uri)))
    raise UsageError(
        f"MLFLOW_TRACKING_URI begins with `{scheme}:`; what can be read from outside is http:, https:, sqlite: and file: "
        "(for another database, ask the tracking server in front of it)"
    )


def _sqlite_file(uri: str) -> Path:
    """The file of `sqlite:///relative` or `sqlite:////absolute`."""
    return _existing(Path(unquote(uri.removeprefix("sqlite:///").partition("?")[0])))


def _existing(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"MLflow keeps no runs at {path.absolute()}: set MLFLOW_TRACKING_URI to where they are")
    return path


class RunTarget:
    """One run."""

    is_open = False
    tells_feeds = False

    def __init__(self, store: Store, uri: str, run_id: str, wanted: Wanted) -> None:
        self._store = store
        self._uri = uri
        self._run = run_id
        self._wanted = wanted
        self._feed: RunFeed | None = None

    def find(self) -> Sequence[RunFeed]:
        """The run, whatever its state or tags: it was asked for by its id. Raises RunGone where it is not there."""
        if self._feed is None:
            self._feed = _feed(self._store, self._uri, run_of(self._store, self._run), self._wanted)
        return [self._feed]

    def close(self) -> None:
        self._store.close()


class ExperimentTarget:
    """The runs of an experiment, or of all whose names fit a pattern (`llm-*`). One search finds those that go on, and says
    which have something new; now and then another one looks for those that came and ended meanwhile, and for experiments.
    """

    is_open = True
    tells_feeds = True

    def __init__(self, store: Store, uri: str, name: str, wanted: Wanted) -> None:
        self._store = store
        self._uri = uri
        self._name = name
        self._wanted = wanted
        self._begun = {uri.rpartition("/")[2] for uri in wanted.begun if uri.startswith(f"mlflow:{store.uri}/")}
        self._ended_after = wanted.ended_after
        self._first = wanted.ended_after
        self._wide = -math.inf
        self._experiments: Sequence[str] = ()
        self._ended: list[str] = []
        self._feeds: dict[str, RunFeed] = {}
        self._fleet = Fleet(store)

    def find(self) -> Sequence[RunFeed]:
        """The runs that are wanted, the oldest first. Raises TrackerError."""
        is_wide = clock.monotonic() - self._wide >= WIDE_S
        wanted = replace(self._wanted, ended_after=self._ended_after if is_wide else math.inf)
        began = clock.time()
        if is_wide and (not self._experiments or self._is_pattern):
            self._experiments = self._named()
        found = [*self._store.search(self._experiments, wanted)] if self._experiments else []
        found = self._with_begun(found)
        there = {snapshot.run_id for snapshot in found}
        if is_wide:
            self._wide = clock.monotonic()
            self._first = min(self._first, began)
            self._ended_after = max(began - MARGIN_S, self._first)
            self._ended = [snapshot.run_id for snapshot in found if snapshot.is_over]
            self._feeds = {run: feed for run, feed in self._feeds.items() if run in there}
        known = [(feed, run) for run in found if (feed := self._feeds.get(run.run_id)) is not None]
        for run in found:
            if run.run_id not in self._feeds:
                self._feeds[run.run_id] = _feed(self._store, self._uri, run, self._wanted)
        self._fleet.tell(known)
        return [feed for run, feed in self._feeds.items() if run in there or run in self._ended]

    @property
    def _is_pattern(self) -> bool:
        return bool(set(self._name) & set("*?["))

    def _named(self) -> Sequence[str]:
        if self._is_pattern:
            return self._store.experiments(self._name)
        try:
            return [self._store.experiment(self._name)]
        except NotThere as error:
            raise NotYet(str(error)) from error

    def _with_begun(self, found: list[Snapshot]) -> list[Snapshot]:
        """With the runs that somebody began to read, and that have ended since. One that is gone says so when it is read."""
        begun: list[Snapshot] = []
        for run in sorted(self._begun - {snapshot.run_id for snapshot in found}):
            try:
                begun.append(self._store.run(run))
            except RunGone:
                begun.append(Snapshot(run, is_deleted=True))
        self._begun = set()
        return begun + found

    def close(self) -> None:
        self._store.close()


def _feed(store: Store, uri: str, snapshot: Snapshot, wanted: Wanted) -> RunFeed:
    def ports(run: Snapshot, policy: LoadedPolicy) -> Sequence[Port]:
        return ports_for(store, uri, run, policy)

    return RunFeed(store, snapshot, wanted.step_key, ports=ports)


def target(rest: str, wanted: Wanted) -> RunTarget | ExperimentTarget:
    """What `mlflow:REST` points at: `RUN_ID`, `experiments/NAME` by the name or the id of the experiment, or a pattern of
    names, or the address of the page of a run or an experiment, or a folder: a file store, an experiment or a run in one.

    Nothing is asked yet. Raises UsageError where the reference, or the tracking URI, means nothing.
    """
    if is_there(rest) and recognises(Path(rest), b""):
        folder, name, is_run = store_at(Path(rest))
        return (RunTarget if is_run else ExperimentTarget)(folder, folder.uri, name, wanted)
    uri, what = place_of(rest)
    name = what.removeprefix(EXPERIMENTS)
    if not name or what == EXPERIMENTS.rstrip("/") or (name == what and "/" in what):
        raise UsageError(f"`mlflow:{rest}` is no run: write mlflow:RUN_ID or mlflow:experiments/NAME")
    store = store_of(uri)
    if name == what:
        return RunTarget(store, uri, name, wanted)
    return ExperimentTarget(store, uri, name, wanted)


def run_of(store: Store, run_id: str) -> Snapshot:
    """A run of a store. Raises RunGone where it is not there, and says so where an experiment is called as the run
    should be."""
    try:
        return store.run(run_id)
    except RunGone as error:
        try:
            store.experiment(run_id)
        except TrackerError:
            raise error from None
        said = f"there is no run {run_id}, but an experiment of that name: write mlflow:{EXPERIMENTS}{run_id}"
        raise RunGone(said) from None
