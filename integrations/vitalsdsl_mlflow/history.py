"""Recorded runs of MLflow as rows: every point, never sampled, in the order in which it was logged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vitalsdsl.ground.claims import is_there
from vitalsdsl.ground.errors import RunGone, SourceError, TrackerError, UsageError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.runs.sources import Recording
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl_mlflow.address import EXPERIMENTS, place_of
from vitalsdsl_mlflow.events import Events
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.folders import recognises, runs_in
from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.stores import Snapshot, Store
from vitalsdsl_mlflow.targets import run_of, store_of


def read(reference: str, *, step_key: str | None = None) -> list[Recording]:
    """The runs behind `RUN_ID`, `experiments/NAME` or a page's address, from the store that MLflow is set to, or in a
    folder of a file store; MLflow is not needed.

    Raises SourceError where there is no such run, or the server does not answer.
    """
    try:
        if is_there(reference) and recognises(Path(reference), b""):
            return _read_folder(Path(reference), step_key)
        uri, what = place_of(reference)
        store = store_of(uri)
        try:
            return _read(store, what, step_key)
        finally:
            store.close()
    except (TrackerError, UsageError) as error:
        raise SourceError(f"mlflow:{reference} cannot be read: {error}") from error


def _read_folder(place: Path, step_key: str | None) -> list[Recording]:
    """The runs in a folder that logged anything."""
    store, snapshots = runs_in(place)
    logged = [run for run in snapshots if run.latest]
    if not logged:
        raise SourceError(f"`{place}` holds {_runs(len(snapshots))} of MLflow, without any metric")
    found = [_on_this_disk(store, run, step_key) for run in logged]
    if silent := len(snapshots) - len(logged):
        note = f"{_runs(silent)} in `{place.name}` logged no metric and {'is' if silent == 1 else 'are'} left out"
        found[0] = replace(found[0], info=replace(found[0].info, notes=(*found[0].info.notes, note)))
    return found


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _read(store: Store, reference: str, step_key: str | None) -> list[Recording]:
    if reference.startswith(EXPERIMENTS):
        experiment = store.experiment(reference.removeprefix(EXPERIMENTS))
        snapshots = store.search([experiment], Wanted(finished=True))
    else:
        snapshots = [run_of(store, reference)]
    return [_recording(RunFeed(store, snapshot, step_key, is_recorded=True)) for snapshot in snapshots]


def _on_this_disk(store: FileStore, run: Snapshot, step_key: str | None) -> Recording:
    """A run that is all there: nothing of it has to be waited for, or asked for page by page."""
    if run.is_deleted:
        raise RunGone(f"the run {run.run_id} has been deleted")
    events = Events(step_key)
    rows = events.add(store.history(run.run_id))
    return Recording(replace(RunFeed(store, run, step_key).info, notes=events.notes()), rows)


def _recording(feed: RunFeed) -> Recording:
    events: list[Row | Rewind] = []
    notes: list[str] = []
    batch = feed.read(None)
    while True:
        events += batch.events
        notes += batch.notes
        if not batch.more:
            return Recording(replace(feed.info, notes=tuple(notes)), events)
        batch = feed.read(batch.cursor)
