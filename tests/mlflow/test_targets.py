"""Which runs of MLflow are found, in whatever store: by their state, by when they ended, by patterns of experiments."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vitalsdsl_mlflow import targets
from vitalsdsl_mlflow.stores import fits

from tests.mlflow.watching import target
from vitalsdsl.ground.errors import RunGone
from vitalsdsl.watching.feeds import Wanted

NOW = 1_700_000_000.0
MINUTE = 60.0


class Kept:
    """Experiments and runs that are written as MLflow writes them. Times are unix seconds."""

    uri: str

    def experiment(self, name: str) -> None:
        raise NotImplementedError

    def run(self, experiment: str, run: str, started: float, ended: float = 0.0) -> None:
        """Make a run, or end it."""
        raise NotImplementedError


class Sqlite(Kept):
    def __init__(self, folder: Path, template: Path) -> None:
        file = folder / "kept.db"
        file.write_bytes(template.read_bytes())
        self.uri = f"sqlite:///{file}"
        self._open = sqlite3.connect(file, isolation_level=None)

    def experiment(self, name: str) -> None:
        self._open.execute("INSERT INTO experiments (name, lifecycle_stage) VALUES (?, 'active')", (name,))

    def run(self, experiment: str, run: str, started: float, ended: float = 0.0) -> None:
        self._open.execute(
            "INSERT OR REPLACE INTO runs (run_uuid, status, start_time, end_time, lifecycle_stage, experiment_id)"
            " VALUES (?, ?, ?, ?, 'active', (SELECT experiment_id FROM experiments WHERE name = ?))",
            (run, "FINISHED" if ended else "RUNNING", 1000 * started, 1000 * ended or None, experiment),
        )


class Files(Kept):
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "kept"
        self.uri = f"file://{self.folder}"
        self.folder.mkdir()

    def experiment(self, name: str) -> None:
        self._meta(self.folder / f"id of {name}", f"name: {name}\n")

    def run(self, experiment: str, run: str, started: float, ended: float = 0.0) -> None:
        end = f"end_time: {1000 * ended:.0f}\n" if ended else ""
        text = f"run_id: {run}\nstatus: {3 if ended else 1}\nstart_time: {1000 * started:.0f}\n{end}"
        self._meta(self.folder / f"id of {experiment}" / run, text)

    def _meta(self, folder: Path, text: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "meta.yaml").write_text(text + "lifecycle_stage: active\n")


class Served(Kept):
    """The sqlite file's runs as a tracking server gives them: made by MLflow's own client."""

    def __init__(self, client: Any, uri: str) -> None:
        self.uri = uri
        self._client = client
        self._ids: dict[str, str] = {}
        self.runs: dict[str, str] = {}

    def experiment(self, name: str) -> None:
        self._ids[name] = self._client.create_experiment(name)

    def run(self, experiment: str, run: str, started: float, ended: float = 0.0) -> None:
        if run not in self.runs:
            made = self._client.create_run(self._ids[experiment], start_time=int(1000 * started), run_name=run)
            self.runs[run] = made.info.run_id
        if ended:
            self._client.set_terminated(self.runs[run], end_time=int(1000 * ended))


@pytest.fixture(params=["sqlite", "files", "server"])
def kept(request: pytest.FixtureRequest, folder: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    if request.param == "server":
        import mlflow

        server = request.getfixturevalue("server")
        made: Kept = Served(mlflow.MlflowClient(tracking_uri=server.uri), server.uri)
    else:
        made = Sqlite(folder, template) if request.param == "sqlite" else Files(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", made.uri)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time of day; each look is a wide one."""
    now = [NOW]
    monkeypatch.setattr(targets.clock, "time", lambda: now[0])
    monkeypatch.setattr(targets, "WIDE_S", 0.0)
    return lambda at: now.__setitem__(0, at)


def found(kept: Kept, at: targets.ExperimentTarget) -> list[str]:
    names = [feed.info.name for feed in at.find()]
    known = {run: name for name, run in getattr(kept, "runs", {}).items()}
    return sorted(known.get(name, name) for name in names)


def experiments(reference: str, **wanted: Any) -> targets.ExperimentTarget:
    opened = target(f"experiments/{reference}", Wanted(**wanted))
    assert isinstance(opened, targets.ExperimentTarget)
    return opened


def named(test: str, request: pytest.FixtureRequest) -> str:
    """One server serves all tests: each has its own names."""
    return f"{test}-{abs(hash(request.node.nodeid)) % 10**8}"


def test_the_first_look_finds_what_goes_on_and_later_ones_what_ended_meanwhile(
    kept: Kept, clock: Callable[[float], None], request: pytest.FixtureRequest
) -> None:
    name = named("ended", request)
    kept.experiment(name)
    kept.run(name, "old", NOW - 9000, NOW - 8000)
    kept.run(name, "just before", NOW - 900, NOW - 30)
    kept.run(name, "long", NOW - 9000)
    looks = experiments(name)
    assert found(kept, looks) == ["long"]
    kept.run(name, "short", NOW + 10, NOW + 20)
    kept.run(name, "long", NOW - 9000, NOW + 25)
    clock(NOW + 30)
    assert found(kept, looks) == ["long", "short"]
    clock(NOW + 30 * MINUTE)
    assert found(kept, looks) == ["long", "short"]
    clock(NOW + 60 * MINUTE)
    assert found(kept, looks) == []
    assert found(kept, experiments(name, finished=True)) == ["just before", "long", "old", "short"]


def test_what_ended_between_two_visits_or_was_begun_is_found(
    kept: Kept, clock: Callable[[float], None], request: pytest.FixtureRequest
) -> None:
    name = named("visits", request)
    kept.experiment(name)
    kept.run(name, "old", NOW - 9000, NOW - 8000)
    kept.run(name, "begun", NOW - 9000, NOW - 7000)
    kept.run(name, "short", NOW - 100, NOW - 50)
    ids = getattr(kept, "runs", {})
    begun = frozenset({f"mlflow:{kept.uri}/{ids.get('begun', 'begun')}", "mlflow:http://elsewhere/x"})
    looks = experiments(name, ended_after=NOW - 200, begun=begun)
    assert found(kept, looks) == ["begun", "short"]


def test_a_begun_run_that_is_gone_says_so_when_it_is_read(kept: Kept, request: pytest.FixtureRequest) -> None:
    name = named("gone", request)
    kept.experiment(name)
    (feed,) = experiments(name, begun=frozenset({f"mlflow:{kept.uri}/{'e' * 32}"})).find()
    with pytest.raises(RunGone, match="eeee.*deleted|no run eeee"):
        feed.read(None)


def test_a_pattern_finds_experiments_and_those_that_come_later(
    kept: Kept, clock: Callable[[float], None], request: pytest.FixtureRequest
) -> None:
    name = named("it's", request)
    looks = experiments(f"{name} llm-*")
    assert found(kept, looks) == []
    for experiment in (f"{name} llm-7b", f"{name} vision", f"{name} LLM-x"):
        kept.experiment(experiment)
        kept.run(experiment, f"of {experiment}", time.time() - 9000)
    assert found(kept, looks) == [f"of {name} llm-7b"]
    kept.experiment(f"{name} llm-70b")
    kept.run(f"{name} llm-70b", "later", time.time() - 9000)
    assert found(kept, looks) == ["later", f"of {name} llm-7b"]


def test_a_name_with_the_signs_of_a_pattern_is_found_by_itself() -> None:
    assert fits("llm [a]", "llm [a]") and fits("llm a", "llm [a]") and not fits("llm b", "llm [a]")
