"""What can be watched of MLflow: one run, or the runs of an experiment, in whatever store MLflow is set to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vitalsdsl.errors import UsageError
from vitalsdsl.feeds import Wanted
from vitalsdsl.policy import LoadedPolicy
from vitalsdsl.tracker import Port
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.outside import ports_for
from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.rest import Rest
from vitalsdsl_mlflow.server import Server
from vitalsdsl_mlflow.sqlite import SqliteStore
from vitalsdsl_mlflow.stores import Snapshot, Store

_DEFAULT = "mlflow.db"
EXPERIMENTS = "experiments/"


def tracking_uri() -> str:
    """Where MLflow keeps its runs, as MLflow decides it: MLFLOW_TRACKING_URI, or the working directory's own store."""
    said = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    if said:
        return said
    if not Path(_DEFAULT).exists() and any(Path("mlruns").glob("*/meta.yaml")):
        return "mlruns"
    return f"sqlite:///{_DEFAULT}"


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

    def __init__(self, store: Store, uri: str, run_id: str, wanted: Wanted) -> None:
        self._store = store
        self._uri = uri
        self._run = run_id
        self._wanted = wanted
        self._feed: RunFeed | None = None

    def find(self) -> Sequence[RunFeed]:
        """The run, whatever its state or tags: it was asked for by its id. Raises RunGone where it is not there."""
        if self._feed is None:
            self._feed = _feed(self._store, self._uri, self._store.run(self._run), self._wanted)
        return [self._feed]

    def close(self) -> None:
        self._store.close()


class ExperimentTarget:
    """The runs of one experiment. One search finds them, and says which have something new."""

    is_open = True

    def __init__(self, store: Store, uri: str, name: str, wanted: Wanted) -> None:
        self._store = store
        self._uri = uri
        self._name = name
        self._wanted = wanted
        self._id = ""
        self._feeds: dict[str, RunFeed] = {}

    def find(self) -> Sequence[RunFeed]:
        """The runs that are wanted, the oldest first. Raises TrackerError."""
        if not self._id:
            self._id = self._store.experiment(self._name)
        found = []
        for snapshot in self._store.search(self._id, self._wanted):
            feed = self._feeds.get(snapshot.run_id)
            if feed is None:
                feed = self._feeds[snapshot.run_id] = _feed(self._store, self._uri, snapshot, self._wanted)
            else:
                feed.told(snapshot)
            found.append(feed)
        return found

    def close(self) -> None:
        self._store.close()


def _feed(store: Store, uri: str, snapshot: Snapshot, wanted: Wanted) -> RunFeed:
    def ports(run: Snapshot, policy: LoadedPolicy) -> Sequence[Port]:
        return ports_for(store, uri, run, policy)

    return RunFeed(store, snapshot, wanted.step_key, ports=ports)


def target(rest: str, wanted: Wanted) -> RunTarget | ExperimentTarget:
    """What `mlflow:REST` points at: `RUN_ID`, or `experiments/NAME` by the name or the id of the experiment.

    Nothing is asked yet. Raises UsageError where the reference, or the tracking URI, means nothing.
    """
    name = rest.removeprefix(EXPERIMENTS)
    if not name or (name == rest and "/" in rest):
        raise UsageError(f"`mlflow:{rest}` is no run: write mlflow:RUN_ID or mlflow:experiments/NAME")
    uri = tracking_uri()
    store = store_of(uri)
    if name == rest:
        return RunTarget(store, uri, rest, wanted)
    return ExperimentTarget(store, uri, name, wanted)
