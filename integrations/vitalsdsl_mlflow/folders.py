"""A folder of MLflow's file store, read as it lies there: a whole `mlruns`, one experiment in it, or one run."""

from __future__ import annotations

from pathlib import Path

from vitalsdsl.watching.feeds import Wanted
from vitalsdsl_mlflow.address import META, is_folder_of_runs
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.stores import Snapshot

_OF_A_RUN = ("metrics", "params", "tags")


def recognises(place: Path, head: bytes) -> bool:
    """Whether a folder is a store, an experiment or a run of MLflow. No file is."""
    return is_folder_of_runs(place)


def store_at(place: Path) -> tuple[FileStore, str, bool]:
    """The store that a folder belongs to, what of it the folder is by its name there, and whether that is a run: else it
    is an experiment, or all of them, whose name is `*`."""
    place = place.resolve()
    if _is_run(place):
        return FileStore(place.parent.parent), place.name, True
    if (place / META).is_file():
        return FileStore(place.parent), place.name, False
    return FileStore(place), "*", False


def runs_in(place: Path) -> tuple[FileStore, list[Snapshot]]:
    """The store that a folder belongs to, and the runs in the folder, those that were begun first at first."""
    store, name, is_run = store_at(place)
    if is_run:
        return store, [store.run(name)]
    experiments = store.experiments("*") if name == "*" else [name]
    return store, store.search(experiments, Wanted(finished=True))


def _is_run(place: Path) -> bool:
    return (place / META).is_file() and any((place / name).is_dir() for name in _OF_A_RUN)
