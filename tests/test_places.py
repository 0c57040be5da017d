"""One way to find runs: every command that takes recorded runs finds the same ones behind a folder, however deep."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl.cli.app import vitals
from vitalsdsl.runs.places import places_of
from vitalsdsl.runs.sources import read

RUN = "a" * 32


def log(path: Path, losses: Sequence[float]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"step": at, "loss": loss}) + "\n" for at, loss in enumerate(losses)))
    return path


def call(*words: str) -> Result:
    return CliRunner().invoke(vitals, words, prog_name="vitals")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs called alike in folders of folders, a store of MLflow's with a run and one that logged nothing, and junk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host.invalid:5000")
    for at, name in enumerate(("a", "b/c", "b/d")):
        log(tmp_path / "runs" / name / "metrics.jsonl", [1.0] * (20 + at))
    (tmp_path / "runs" / "b" / "model.bin").write_bytes(b"\0\1\2")
    for run in (RUN, "b" * 32):
        folder = tmp_path / "runs" / "mlruns" / "7" / run
        (folder / "metrics").mkdir(parents=True)
        (folder.parent / "meta.yaml").write_text("name: llm\nexperiment_id: '7'\n")
        (folder / "meta.yaml").write_text("status: 3\nlifecycle_stage: active\nstart_time: 1\n")
    (tmp_path / "runs" / "mlruns" / "7" / RUN / "metrics" / "loss").write_text(
        "".join(f"{1000 * at} 9.0 {at}\n" for at in range(5))
    )
    (tmp_path / "p.vitals").write_text("when loss > 3 -> red\n")
    return tmp_path


FOUND = ["a/metrics.jsonl", "b/c/metrics.jsonl", "b/d/metrics.jsonl", RUN]
PASSED_OVER = (
    "passed over, as no log that can be read: runs/b/model.bin: is a binary file, not a text log; "
    f"{'b' * 32}: `{{project}}/runs/mlruns/7/{'b' * 32}` holds 1 run of MLflow, without any metric\n"
)


def test_replay_goes_into_folders_of_folders_and_calls_runs_by_their_way_there(project: Path) -> None:
    result = call("replay", "p.vitals", "runs")
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == FOUND
    assert result.exit_code == 0 and result.stderr.endswith(PASSED_OVER.format(project=project))
    lines = call("replay", "p.vitals", "runs", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["run"] for line in lines] == [RUN]


def test_backtest_finds_the_same_runs_and_passes_over_the_same(project: Path) -> None:
    result = call("backtest", "p.vitals", "runs", "--jobs", "1", "--format", "json")
    found = json.loads(result.stdout)
    assert [run["run"].removeprefix("runs/") for run in found["runs"]] == FOUND
    assert {run["run"]: run["worst"] for run in found["runs"]}[RUN] == "red"
    assert {one["source"]: one["named"] for one in found["unread"]} == {"runs/b/model.bin": False, "b" * 32: False}
    assert result.exit_code == 0


def test_names_init_check_report_and_explain_find_them_too(project: Path) -> None:
    lines = call("names", "runs", "--format", "jsonl").stdout.splitlines()
    named = [line for line in map(json.loads, lines) if line["type"] == "run"]
    assert [line["run"] for line in named] == FOUND
    assert "4 runs in runs" in call("init", "runs").stdout
    against = call("check", "p.vitals", "--against", "runs").output
    assert "V301" not in against and "passed over, as no log that can be read: runs/b/model.bin" in against
    (project / "q.vitals").write_text("when los > 3 -> red\n")
    assert "no run has ever logged `los` (4 runs checked)" in call("check", "q.vitals", "--against", "runs").stdout
    assert re.findall("^(.*), step", call("explain", "p.vitals", "runs").stdout, re.MULTILINE) == FOUND


def test_report_writes_of_all_of_them() -> None:
    pytest.importorskip("jinja2")
    text = call("report", "runs", "--policy", "p.vitals", "--format", "md").stdout
    assert [text.count(name) > 0 for name in FOUND] == [True] * 4


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "p.vitals"), ("backtest", "p.vitals"), ("names",), ("init",), ("report",), ("explain", "p.vitals"),
        ("check", "p.vitals", "--against"), ("check", "p.vitals", "--healthy"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_where_no_run_is_all_commands_refuse_in_the_same_words(words: tuple[str, ...], project: Path) -> None:
    (project / "empty").mkdir()
    (project / "junk" / "in").mkdir(parents=True)
    (project / "junk" / "in" / "void.log").touch()
    said = {
        "empty": "empty: no file lies in this folder",
        "junk": "junk/in/void.log: is empty",
        "nix.log": "nix.log: cannot be read: no such file or directory",
        "p.vitals": "p.vitals: is in no known log format (",
        "mlflow:nix/x": "mlflow:nix/x: is no run: write mlflow:RUN_ID or mlflow:experiments/NAME",
    }
    for source, why in said.items():
        result = call(*words, source)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: no run could be read\n{why}"), source


def test_a_source_that_cannot_be_read_costs_no_other(project: Path) -> None:
    result = call("replay", "p.vitals", "nix.log", "runs/a", "p.vitals")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (2, "a")
    first, second = result.stderr.splitlines()[-2:]
    assert first == "error: nix.log: cannot be read: no such file or directory"
    assert second.startswith("p.vitals: is in no known log format")
    written = call("init", "nix.log", "runs/a", "-o", "new.vitals")
    assert written.exit_code == 2 and not (project / "new.vitals").exists()


def test_our_own_files_beside_logs_are_no_logs_and_others_are_named_shortly(project: Path) -> None:
    (project / "runs" / "b" / "p.vitals").write_text("when loss > 3 -> red\n")
    journal = {"type": "noted", "run": "a", "step": 3, "rule": "r", "to": "red"}
    (project / "runs" / "b" / "p.journal.jsonl").write_text(json.dumps(journal) + "\n")
    (project / "runs" / "b" / "notes.txt").write_text("nothing to see\n")
    result = call("replay", "p.vitals", "runs")
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == FOUND
    assert "runs/b/notes.txt: is in no known log format; " in result.stderr
    assert "p.journal" not in result.stderr and "p.vitals" not in result.stderr


def test_a_run_that_is_named_twice_is_read_once() -> None:
    result = call("replay", "p.vitals", "runs/a", "runs/a/metrics.jsonl", "runs/a")
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == ["a"]


def test_a_log_that_breaks_off_costs_no_other(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalsdsl_files.reader.HELD", 10)
    (project / "runs" / "a" / "metrics.jsonl").write_text("".join(f'{{"step": {n}, "loss": 9}}\n' for n in range(40)))

    def damaged(reference: str, *, step_key: str | None = None) -> list[object]:
        found = read(reference, step_key=step_key)
        if reference.endswith("runs/a/metrics.jsonl"):
            (project / "runs" / "a" / "metrics.jsonl").unlink()
        return list(found)

    monkeypatch.setattr("vitalsdsl.cli.recorded.read", damaged)
    result = call("replay", "p.vitals", "runs")
    assert result.exit_code == 2 and "error: `metrics.jsonl` cannot be read: no such file" in result.stderr
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == FOUND


def test_of_a_trainers_checkpoints_the_newest_is_read_and_none_beside_the_whole_run(project: Path) -> None:
    def state(folder: Path, steps: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rows = [{"step": step, "loss": 1.0, "epoch": 0.1 * step} for step in range(1, steps + 1)]
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows, "max_steps": 12}))

    for steps in (2, 10, 9):
        state(project / "out" / f"checkpoint-{steps}", steps)
    log(project / "out" / "checkpoint-11" / "own.jsonl", [1.0])
    said = call("replay", "p.vitals", "out").stdout.splitlines()
    assert [line for line in said if not line.startswith(" ")] == [
        "checkpoint-10/trainer_state.json",
        "checkpoint-11/own.jsonl",
    ]
    state(project / "out", 12)
    assert call("replay", "p.vitals", "out").stdout.splitlines()[0] == "out"
    assert [place.shown for place in places_of(["out"])[0]] == ["out/trainer_state.json", "out/checkpoint-11/own.jsonl"]


def test_a_trackers_folder_without_runs_costs_no_log_beside_it(project: Path) -> None:
    (project / "runs" / "b" / "wandb" / "offline-run-20260101_120000-x").mkdir(parents=True)
    found, unread = places_of(["runs"])
    assert len(found) == 6 and [(one.source, one.is_named) for one in unread] == [("runs/b/wandb", False)]


def test_event_files_of_one_folder_are_one_run_wherever_it_lies(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "files"))
    from test_event_files import BEGIN, scalar

    folder = project / "tb" / "version_0"
    folder.mkdir(parents=True)
    for at in (0, 1):
        rows = b"".join(scalar(step, 100.0 + step, "loss", 9.0) for step in range(10 * at, 10 * at + 10))
        (folder / f"events.out.tfevents.{at}").write_bytes(BEGIN + rows)
    [place], unread = places_of(["tb"])
    assert (place.shown, unread) == ("tb/version_0", [])
    [run] = read(place.reference)
    assert (run.info.name, len(list(run.events))) == ("version_0", 20)
    assert call("replay", "p.vitals", "tb").stdout.splitlines()[0] == "version_0"
    assert call("replay", "p.vitals", "tb/version_0").stdout.splitlines()[0] == "version_0"
    found = json.loads(call("backtest", "p.vitals", "tb", "--jobs", "1", "--format", "json").stdout)
    assert [(one["run"], one["steps"]) for one in found["runs"]] == [("tb/version_0", 20)]


def test_a_file_that_is_called_as_any_runs_is_called_by_its_folder(project: Path) -> None:
    for name in ("one/checkpoint-9", "two"):
        (project / name).mkdir(parents=True)
        state = {"log_history": [{"step": step, "loss": 1.0} for step in (1, 2)]}
        (project / name / "trainer_state.json").write_text(json.dumps(state))
    files = ["one/checkpoint-9/trainer_state.json", "two/trainer_state.json"]
    for sources in (files, ["one/checkpoint-9", "two"]):
        said = call("replay", "p.vitals", *sources).stdout.splitlines()
        assert [line for line in said if not line.startswith(" ")] == ["one", "two"]
    (project / "labels.csv").write_text("run,label\none,healthy\ntwo,healthy\n")
    told = call("backtest", "p.vitals", *files, "--labels", "labels.csv")
    assert told.exit_code == 0 and "no run is called" not in told.output
