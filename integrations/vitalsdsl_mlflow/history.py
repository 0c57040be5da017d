"""Recorded runs of MLflow as rows: every point, never sampled, in the order in which it was logged."""

from __future__ import annotations

from dataclasses import replace

from vitalsdsl.errors import SourceError, TrackerError, UsageError
from vitalsdsl.feeds import Wanted
from vitalsdsl.points import Rewind, Row
from vitalsdsl.sources import Recording
from vitalsdsl_mlflow.address import EXPERIMENTS, place_of
from vitalsdsl_mlflow.remote import RunFeed
from vitalsdsl_mlflow.stores import Store
from vitalsdsl_mlflow.targets import run_of, store_of


def read(reference: str, *, step_key: str | None = None) -> list[Recording]:
    """The runs behind `RUN_ID`, `experiments/NAME` or a page's address, from the store that MLflow is set to; MLflow is
    not needed.

    Raises SourceError where there is no such run, or the server does not answer.
    """
    try:
        uri, what = place_of(reference)
        store = store_of(uri)
        try:
            return _read(store, what, step_key)
        finally:
            store.close()
    except (TrackerError, UsageError) as error:
        raise SourceError(f"mlflow:{reference} cannot be read: {error}") from error


def _read(store: Store, reference: str, step_key: str | None) -> list[Recording]:
    if reference.startswith(EXPERIMENTS):
        experiment = store.experiment(reference.removeprefix(EXPERIMENTS))
        snapshots = store.search([experiment], Wanted(finished=True))
    else:
        snapshots = [run_of(store, reference)]
    return [_recording(RunFeed(store, snapshot, step_key, is_recorded=True)) for snapshot in snapshots]


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
