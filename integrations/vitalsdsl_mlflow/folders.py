"""A folder of MLflow's file store, read as it lies there: a whole `mlruns`, one experiment in it, or one run."""

from __future__ import annotations

from pathlib import Path

from vitalsdsl.feeds import Wanted
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.stores import Snapshot

_META = "meta.yaml"
_OF_A_RUN = ("metrics", "params", "tags")


def recognises(place: Path, head: bytes) -> bool:
    """Whether a folder is a store, an experiment or a run of MLflow. No file is."""
    return place.is_dir() and any(map(_is_mlflows, (place / _META, *place.glob(f"*/{_META}"))))


def runs_in(place: Path) -> tuple[FileStore, list[Snapshot]]:
    """The store that a folder belongs to, and the runs in the folder, those that were begun first at first."""
    place = place.resolve()
    if _is_run(place):
        store = FileStore(place.parent.parent)
        return store, [store.run(place.name)]
    is_experiment = (place / _META).is_file()
    store = FileStore(place.parent if is_experiment else place)
    experiments = [place.name] if is_experiment else store.experiments("*")
    return store, store.search(experiments, Wanted(finished=True))


def _is_mlflows(meta: Path) -> bool:
    """Whether it is the file that MLflow puts into each folder: others have files of that name too."""
    if not meta.is_file():
        return False
    with meta.open("rb") as file:
        text = file.read(4096)
    return b"lifecycle_stage:" in text or b"experiment_id:" in text


def _is_run(place: Path) -> bool:
    return (place / _META).is_file() and any((place / name).is_dir() for name in _OF_A_RUN)
