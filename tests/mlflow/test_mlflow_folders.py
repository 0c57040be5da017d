"""A folder of MLflow's file store is read as any folder with logs is, without MLflow and without its variable."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from vitalsdsl_mlflow import read
from vitalsdsl_mlflow.folders import recognises, runs_in
from vitalsdsl_mlflow.remote import RunFeed

from vitalsdsl.ground.errors import SourceError
from vitalsdsl.ground.points import Row
from vitalsdsl.runs.sources import Recording

RUNS = ("a" * 32, "b" * 32, "c" * 32)


@pytest.fixture
def mlruns(tmp_path: Path) -> Path:
    """Two experiments: `llm` with a run and one that logged nothing, `old` with a run whose lines have no step."""
    for at, (run, experiment) in enumerate(zip(RUNS, ("7", "7", "8"), strict=True)):
        folder = tmp_path / "mlruns" / experiment / run
        (folder / "metrics").mkdir(parents=True)
        (folder.parent / "meta.yaml").write_text(f"name: llm-{experiment}\nexperiment_id: '{experiment}'\n")
        (folder / "meta.yaml").write_text(f"status: 3\nlifecycle_stage: active\nstart_time: {at + 1}\n")
    (tmp_path / "mlruns" / "7" / RUNS[0] / "metrics" / "loss").write_text("1000 2.5 0\n2000 nan 10\n")
    (tmp_path / "mlruns" / "8" / RUNS[2] / "metrics" / "acc").write_text("1000 0.5\n")
    return tmp_path / "mlruns"


def names(found: list[Recording]) -> list[str]:
    return [recording.info.name for recording in found]


def test_a_store_an_experiment_and_a_run_are_read_by_their_paths(mlruns: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host.invalid:5000")
    assert names(read(str(mlruns))) == [RUNS[0], RUNS[2]]
    assert names(read(str(mlruns / "7"))) == [RUNS[0]]
    [run] = read(str(mlruns / "7" / RUNS[0]))
    assert [(event.step, list(event.values)) for event in run.events if isinstance(event, Row)] == [
        (0, ["loss"]),
        (10, ["loss"]),
    ]


def test_runs_that_logged_nothing_are_left_out_and_said(mlruns: Path) -> None:
    assert read(str(mlruns))[0].info.notes[-1] == "1 run in `mlruns` logged no metric and is left out"
    with pytest.raises(SourceError, match=f"`{mlruns / '7' / RUNS[1]}` holds 1 run of MLflow, without any metric"):
        read(str(mlruns / "7" / RUNS[1]))


def test_other_folders_are_not_taken_for_mlflows(mlruns: Path, tmp_path: Path) -> None:
    assert all(recognises(place, b"") for place in (mlruns, mlruns / "7", mlruns / "7" / RUNS[0]))
    (tmp_path / "other" / "pack").mkdir(parents=True)
    (tmp_path / "other" / "pack" / "meta.yaml").write_text("package: conda\n")
    assert not any(recognises(place, b"") for place in (tmp_path, tmp_path / "other", mlruns / "7" / "meta.yaml"))


@pytest.mark.parametrize("key", [None, "a"])
@pytest.mark.parametrize("seed", range(12))
def test_a_run_that_is_all_there_has_the_rows_that_following_it_gives(mlruns: Path, seed: int, key: str | None) -> None:
    """Whatever it logged: twice the same, steps that go back, NaN, without steps, system metrics."""
    chance, time, step = random.Random(seed), 1_700_000_000_000, 0
    lines: dict[str, list[str]] = {}
    for _ in range(400):
        step = max(0, step + chance.choice((0, 1, 1, 1, -40 if chance.random() < 0.02 else 1))) * (seed % 4 > 0)
        time += chance.choice((0, 0, 100, 7_000 if chance.random() < 0.02 else 50))
        for name in chance.sample(("a", "b", "system/gpu"), chance.choice((1, 2, 3))):
            value = "nan" if chance.random() < 0.05 else repr(chance.random())
            lines.setdefault(name, []).extend([f"{time} {value} {step}\n"] * (1 + (chance.random() < 0.01)))
    run = mlruns / "7" / RUNS[0]
    for name, found in lines.items():
        (run / "metrics" / name).parent.mkdir(exist_ok=True)
        (run / "metrics" / name).write_text("".join(found))
    (run / "metrics" / "loss").unlink()
    store, [snapshot] = runs_in(run)
    feed = RunFeed(store, snapshot, key, is_recorded=True)
    batch = feed.read(None)
    [recording] = read(str(run), step_key=key)
    assert not batch.more and repr(recording.events) == repr(batch.events)
    assert recording.info.notes == tuple(batch.notes)
