"""What people write for runs of MLflow: a page's address, an experiment's name, an id without its scheme."""

from __future__ import annotations

from pathlib import Path

import pytest
from vitalsdsl_mlflow import read
from vitalsdsl_mlflow.address import claims, place_of
from vitalsdsl_mlflow.filestore import FileStore
from vitalsdsl_mlflow.targets import ExperimentTarget, RunTarget, target

from vitalsdsl.ground.errors import RunGone, SourceError, UsageError
from vitalsdsl.watching.feeds import Wanted

RUN = "0123456789abcdef0123456789abcdef"
PAGE = f"http://host:5000/base/#/experiments/3/runs/{RUN}"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def mlruns(tmp_path: Path) -> Path:
    """A folder with one experiment, `llm`, and one run of it."""
    run = tmp_path / "mlruns" / "7" / RUN
    (run / "metrics").mkdir(parents=True)
    (run.parent / "meta.yaml").write_text("name: llm\nexperiment_id: '7'\n")
    (run / "meta.yaml").write_text("status: 3\nlifecycle_stage: active\nstart_time: 1\n")
    (run / "metrics" / "loss").write_text("1 2.5 0\n")
    return tmp_path / "mlruns"


@pytest.mark.parametrize("more", ["", "/model-metrics", "?x=1", "/overview?x=1"])
def test_the_page_of_a_run_is_that_run_on_the_pages_server(more: str) -> None:
    assert claims(PAGE + more) == f"mlflow:{PAGE}"
    assert place_of(PAGE + more) == ("http://host:5000/base", RUN)
    found = target(PAGE + more, Wanted())
    assert isinstance(found, RunTarget) and found._run == RUN and found._store.uri == "http://host:5000/base"


def test_the_page_of_an_experiment_is_that_experiment() -> None:
    page = "http://host:5000/#/experiments/3/runs?searchFilter=x"
    assert place_of(page) == ("http://host:5000", "experiments/3")
    assert isinstance(target(page, Wanted()), ExperimentTarget)


def test_a_page_on_the_server_that_is_set_is_reached_as_that_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:secret@host:5000/base/")
    assert place_of(PAGE) == ("http://ann:secret@host:5000/base/", RUN)


def test_no_key_is_sent_to_a_page_on_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ann:secret@other")
    with pytest.raises(UsageError, match="this page is on http://host:5000/base, but") as caught:
        target(PAGE, Wanted())
    assert "set MLFLOW_TRACKING_URI=http://host:5000/base" in str(caught.value) and "secret" not in str(caught.value)


def test_a_page_of_something_else_is_none_of_ours() -> None:
    assert claims("http://host:5000/#/models/llm") is None
    with pytest.raises(UsageError, match="is the page of no run and no experiment: write mlflow:RUN_ID"):
        target("http://host:5000/#/models/llm", Wanted())


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (RUN, f"did you mean mlflow:{RUN}\\?"),
        (
            "sqlite:///q.db",
            "set MLFLOW_TRACKING_URI=sqlite:///q.db, and write mlflow:RUN_ID or mlflow:experiments/NAME",
        ),
    ],
)
def test_what_is_mlflows_and_names_no_run_is_said_with_what_to_write(written: str, said: str, mlruns: Path) -> None:
    with pytest.raises(UsageError, match=said):
        claims(written)


@pytest.mark.parametrize(("written", "is_open"), [("./mlruns", True), ("mlruns/7", True), (f"mlruns/7/{RUN}", False)])
def test_a_folder_of_runs_is_these_runs_whatever_store_is_set(
    written: str, is_open: bool, mlruns: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host:5000")
    assert claims(written) == f"mlflow:{written}"
    found = target(written, Wanted(finished=True))
    assert found.is_open is is_open
    [feed] = found.find()
    assert (feed.uri, feed.reference) == (f"mlflow:file://{mlruns}/{RUN}", f"mlflow:{mlruns}/7/{RUN}")
    [recording] = read(feed.reference.removeprefix("mlflow:"))
    assert recording.info.name == RUN


def test_a_folder_that_has_files_of_the_same_name_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "pkgs" / "one").mkdir(parents=True)
    (tmp_path / "pkgs" / "one" / "meta.yaml").write_text("package: one\n")
    assert claims("pkgs") is None


def test_a_path_or_a_name_is_left_to_others(tmp_path: Path) -> None:
    (tmp_path / RUN).touch()
    assert [claims(text) for text in (RUN, "wandb", "llm.vitals", "a\0b", "3kx9")] == [None] * 5


@pytest.mark.parametrize("name", ["llm", "7"])
def test_an_experiment_taken_for_a_run_is_said_how_to_write(name: str, mlruns: Path) -> None:
    said = f"there is no run {name}, but an experiment of that name: write mlflow:experiments/{name}"
    with pytest.raises(RunGone, match=said):
        target(name, Wanted()).find()
    with pytest.raises(SourceError, match=said):
        read(name)
    with pytest.raises(RunGone, match=f"^there is no run nix in {FileStore(mlruns).uri.removeprefix('file://')}$"):
        target("nix", Wanted()).find()


@pytest.mark.parametrize("written", ["experiments", "experiments/", "", "a/b"])
def test_an_experiment_without_a_name_is_no_run(written: str, mlruns: Path) -> None:
    with pytest.raises(UsageError, match="is no run: write mlflow:RUN_ID or mlflow:experiments/NAME"):
        target(written, Wanted())
    with pytest.raises(SourceError, match="no run|no experiment"):
        read(written)
