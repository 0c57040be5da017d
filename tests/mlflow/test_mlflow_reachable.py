"""What `vitals doctor` says of MLflow, whatever store it is set to."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from vitalsdsl_mlflow.reachable import look


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def said(uri: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    ((what, state, text),) = look()
    assert what == "MLFLOW_TRACKING_URI"
    return state, text


def test_a_folder_and_a_file_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mlruns").mkdir()
    assert said("./mlruns", monkeypatch) == ("ok", f"file://{tmp_path}/mlruns answers")
    with sqlite3.connect("q.db") as file:
        file.execute("CREATE TABLE experiments (experiment_id INTEGER, name TEXT)")
    assert said("sqlite:///q.db", monkeypatch) == ("ok", f"sqlite:///{tmp_path}/q.db answers")


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("http://ann:secret@127.0.0.1:9", "http://127.0.0.1:9 cannot be reached"),
        ("sqlite:///nix.db", "MLflow keeps no runs at"),
        ("./nix", "MLflow keeps no runs at"),
        ("sqlite:///text.db", "is not a database of MLflow"),
        ("postgresql://host/db", "ask the tracking server in front of it"),
    ],
)
def test_what_does_not_answer_is_bad_and_no_key_is_shown(
    uri: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.db").write_text("no database at all, however long it may be" * 9)
    state, told = said(uri, monkeypatch)
    assert state == "bad" and text in told and "secret" not in told


def test_what_is_not_set_and_not_there_is_optional(tmp_path: Path) -> None:
    ((_, state, text),) = look()
    assert state == "absent" and text.startswith("not set (optional): MLflow keeps no runs at")
    (tmp_path / "mlruns" / "0").mkdir(parents=True)
    (tmp_path / "mlruns" / "0" / "meta.yaml").write_text("name: Default\n")
    assert list(look()) == [("MLFLOW_TRACKING_URI", "ok", f"not set (optional): file://{tmp_path}/mlruns answers")]
