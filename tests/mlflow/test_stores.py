"""Stores that are read where they lie: the sqlite file and the folder of the file store give the rows of the server."""

from __future__ import annotations

import math
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_mlflow import read
from vitalsdsl_mlflow.address import tracking_uri
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.sqlite import SqliteStore
from vitalsdsl_mlflow.targets import store_of

from tests.mlflow.memory_store import RUN, MemoryStore
from tests.mlflow.watching import Event, feed_of, plain, points, target, watched, wave
from vitalsdsl.ground.errors import RunGone, SourceError, TrackerError, UsageError
from vitalsdsl.watching.feeds import Wanted

BEGAN = 1_700_000_000_000


class Sqlite:
    """Points written as MLflow writes them, with its own client only where it is quick enough."""

    def __init__(self, folder: Path, template: Path) -> None:
        self.file = folder / "written.db"
        self.file.write_bytes(template.read_bytes())
        self.uri = f"sqlite:///{self.file}"
        self._open = sqlite3.connect(self.file, isolation_level=None)
        self._open.execute("PRAGMA synchronous = OFF")
        self._open.execute("PRAGMA journal_mode = MEMORY")
        self._open.execute(
            "INSERT INTO runs (run_uuid, status, start_time, lifecycle_stage, experiment_id, artifact_uri)"
            " VALUES (?, 'RUNNING', 1, 'active', 0, '')", (RUN,),
        )  # fmt: skip

    def log(self, key: str, value: float, step: int, timestamp: int) -> None:
        is_nan = math.isnan(value)
        stored = 0.0 if is_nan else max(-1.7976931348623157e308, min(1.7976931348623157e308, value))
        row = (key, stored, timestamp, RUN, step, is_nan)
        self._open.execute(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)", row
        )
        self._open.execute(
            "INSERT OR REPLACE INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)",
            row,
        )

    def end(self, status: str = "FINISHED") -> None:
        self._open.execute("UPDATE runs SET status = ?", (status,))


class Files:
    """The file store's folder, as MLflow writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "written"
        self.uri = f"file://{self.folder}"
        self.run = self.folder / "0" / RUN
        for name in ("metrics", "params", "tags", "artifacts"):
            (self.run / name).mkdir(parents=True)
        (self.folder / "0" / "meta.yaml").write_text("name: Default\nexperiment_id: '0'\nlifecycle_stage: active\n")
        self.end("RUNNING")

    def log(self, key: str, value: float, step: int, timestamp: int) -> None:
        file = self.run / "metrics" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write(f"{timestamp} {value} {step}\n")

    def end(self, status: str = "FINISHED") -> None:
        number = {"RUNNING": 1, "FINISHED": 3}[status]
        (self.run / "meta.yaml").write_text(
            f"run_id: {RUN}\nstatus: {number}\nstart_time: 1\nlifecycle_stage: active\n"
        )


@pytest.fixture(params=["sqlite", "files"])
def written(request: pytest.FixtureRequest, folder: Path, template: Path) -> Sqlite | Files:
    return Sqlite(folder, template) if request.param == "sqlite" else Files(folder)


def scenario(seed: int) -> list[tuple[str, float, int, int]]:
    """Points of several metrics in the order of arrival: shuffled, with late ones, NaN, ±inf, and a resumed part."""
    random_ = random.Random(seed)
    logged = [(f"m/{key}", wave(key, step), step, BEGAN + 250 * step + key) for step in range(300) for key in range(4)]
    logged += [("no step", float(at), 0, BEGAN + 1000 * at) for at in range(75)]
    logged += [("system/gpu", 50.0, at, BEGAN + 2000 * at) for at in range(37)]
    logged += [
        (f"m/{key}", math.nan, step, BEGAN + 100_000 + 250 * step) for step in range(250, 320) for key in range(4)
    ]
    return sorted(logged, key=lambda point: point[3] + random_.uniform(0, 4000))


@pytest.mark.parametrize("restart", [False, True], ids=["one feed", "a new feed each time"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_a_server_whatever_the_store(written: Sqlite | Files, seed: int, restart: bool) -> None:
    arrival = scenario(seed)
    memory = MemoryStore()
    events: list[Event] = []
    cursor: Any = None
    feed = feed_of(written.uri, RUN)
    for at in range(0, len(arrival), 60):
        for point in arrival[at : at + 60]:
            memory.log(*point)
            written.log(*point)
        if at + 60 >= len(arrival):
            written.end()
        more, _, cursor = watched(
            lambda: feed_of(written.uri, RUN) if restart else feed, cursor=cursor, until=lambda batch: not batch.more
        )
        events += more
    memory.status = "FINISHED"
    as_served = watched(lambda: feed_of(memory, RUN))[0]
    assert sum(points(events).values()) == len(arrival)
    assert plain(events) == plain(as_served)
    assert plain(watched(lambda: feed_of(written.uri, RUN))[0]) == plain(as_served)


def test_a_line_that_is_still_being_written_waits(folder: Path) -> None:
    files = Files(folder)
    files.log("loss", 1.0, 1, BEGAN)
    with (files.run / "metrics" / "loss").open("a") as opened:
        opened.write(f"{BEGAN + 1} 2")
    store = FileStore(files.folder)
    mark = store.mark(RUN)
    assert [point.value for point in store.tail(RUN, "loss", 0, 10, mark)] == [1.0]
    with (files.run / "metrics" / "loss").open("a") as opened:
        opened.write(".5 2\n")
    found, _ = store.fresh(RUN, mark)
    assert [(point.value, point.step) for point in found] == [(2.5, 2)]


def test_a_line_that_is_no_point_is_named(folder: Path) -> None:
    files = Files(folder)
    (files.run / "metrics" / "loss").write_text("one two three\n")
    with pytest.raises(TrackerError, match="`loss` holds a line that is no point: one two three"):
        feed_of(files.uri, RUN).read(None)


def test_a_real_file_store_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri="file:mlruns")
    run = client.create_run("0", tags={"team": "a"}).info.run_id
    client.log_param(run, "max_steps", "200")
    for step in range(5):
        client.log_metric(run, "train/loss", [1.0, math.nan, math.inf, -math.inf, 2.0][step], BEGAN + step, step)
    client.set_terminated(run)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:mlruns")
    (recording,) = read(run)
    assert recording.info.total_steps == 200
    assert plain(recording.events) == [
        (step, (BEGAN + step) / 1000, {"train/loss": value})
        for step, value in enumerate(["1.0", "nan", "inf", "-inf", "2.0"])
    ]
    (feed,) = target("experiments/Default", Wanted(tags={"team": "a"}, finished=True)).find()
    assert feed.info.name == run
    client.delete_run(run)
    with pytest.raises(RunGone):
        target(run, Wanted()).find()[0].read(None)


def test_a_database_is_only_ever_read(folder: Path, template: Path) -> None:
    written = Sqlite(folder, template)
    written.log("loss", 1.0, 1, BEGAN)
    written._open.close()
    before = written.file.read_bytes()
    written.file.chmod(0o444)
    feed_of(written.uri, RUN).read(None)
    assert written.file.read_bytes() == before
    assert sorted(path.name for path in folder.glob("written.db*")) == ["written.db"]


def test_a_writer_holds_a_reading_up_and_fails_none(
    folder: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitalsdsl_mlflow.sqlite.PATIENCE_S", 0.1)
    written = Sqlite(folder, template)
    written._open.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TrackerError, match="cannot be read now") as caught:
        SqliteStore(written.file).run(RUN)
    assert not caught.value.is_final
    written._open.execute("COMMIT")
    assert SqliteStore(written.file).run(RUN).run_id == RUN


def test_a_file_that_is_no_database_of_mlflow_is_named(folder: Path) -> None:
    (folder / "other.db").write_text("no database")
    with pytest.raises(TrackerError, match=r"other\.db is not a database of MLflow"):
        SqliteStore(folder / "other.db").run(RUN)


def test_the_store_is_the_one_that_mlflow_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracking_uri() == "sqlite:///mlflow.db"
    with pytest.raises(UsageError, match="MLflow keeps no runs at"):
        store_of(tracking_uri())
    (folder / "mlruns" / "0").mkdir(parents=True)
    (folder / "mlruns" / "0" / "meta.yaml").write_text("name: Default\n")
    assert isinstance(store_of(tracking_uri()), FileStore)
    (folder / "mlflow.db").touch()
    assert isinstance(store_of(tracking_uri()), SqliteStore)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:secret@host:5000/")
    assert store_of(tracking_uri()).uri == "http://host:5000"


@pytest.mark.parametrize("reference", ["", "experiments/", "a/b"])
def test_a_reference_that_means_nothing_says_what_would(reference: str) -> None:
    with pytest.raises(UsageError, match=r"mlflow:RUN_ID or mlflow:experiments/NAME"):
        target(reference, Wanted())


def test_a_run_that_is_not_there_is_no_recording(client: Any) -> None:
    with pytest.raises(SourceError, match=r"mlflow:nonesuch cannot be read: there is no run nonesuch"):
        read("nonesuch")


def test_what_is_watched_is_registered() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    section = project.split('[project.entry-points."vitalsdsl.targets"]')[1].split("[")[0]
    assert 'mlflow = "vitalsdsl_mlflow.targets:target"' in section
