"""Commands that take long say how far they are where nobody sees a bar; and what is said of many runs is said once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vitalsdsl.cli import heartbeat
from vitalsdsl.cli.app import vitals
from vitalsdsl.ground.points import Row, RunInfo
from vitalsdsl.runs.sources import Recording


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(vitals, list(words), input=stdin, prog_name="vitals")


@pytest.mark.parametrize("command", ["replay", "names", "init", "report"])
def test_a_command_that_takes_long_says_how_far_it_is(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    heard = threading.Event()

    def tell(said: str) -> None:
        told.append(said)
        if "rows read" in said:
            heard.set()

    def events() -> Iterator[Row]:
        for step in range(2500):
            if step == 2200 and not heard.is_set():
                assert heard.wait(60), "nothing was said in a minute"
            yield Row(step, {"loss": 1.0})

    class Slow:
        def __iter__(self) -> Iterator[Row]:
            return events()

    monkeypatch.chdir(tmp_path)
    Path("run.jsonl").write_text('{"step": 1, "loss": 1}\n')
    monkeypatch.setattr(heartbeat, "EVERY", 0.002)
    monkeypatch.setattr(heartbeat, "tell", tell)
    monkeypatch.setattr("vitalsdsl.cli.recorded.read", lambda *_, **__: [Recording(RunInfo("run.jsonl"), Slow())])
    words = [command, *(["pack:core"] if command == "replay" else []), "run.jsonl"]
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert "run.jsonl: 2,000 rows read" in told


def test_a_command_that_is_soon_done_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text('{"step": 1, "loss": 1}\n')
    (tmp_path / "p.vitals").write_text("when loss > 3 -> red")
    assert call("replay", str(tmp_path / "p.vitals"), str(tmp_path / "run.jsonl")).stderr == ""
    assert not [thread for thread in threading.enumerate() if thread.name == "vitals-heartbeat"]


def test_what_many_runs_never_log_is_said_once_with_their_number(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("iteration,loss\n1,2\n2,3\n" if name != "c" else "iteration,los\n1,2\n")
    (tmp_path / "p.vitals").write_text("when loss > 9 -> red when lr > 1 -> red")
    done = call("replay", str(tmp_path / "p.vitals"), *(str(tmp_path / f"{name}.csv") for name in "abc"))
    assert done.stderr.splitlines() == [
        "a.csv: the step is read from `iteration`",
        "2 more runs: the step is read from `iteration`",
        "  never logged in 2 of 3 runs: lr (read by lr_red)",
        "  never logged in 1 of 3 runs: loss (read by loss_red), lr (read by lr_red); loss: did you mean `los`?",
    ]


@pytest.mark.parametrize("piped", [True, False])
def test_a_step_that_goes_back_in_rows_that_are_passed_on_is_told(tmp_path: Path, piped: bool) -> None:
    steps = [1, 2, 3, 2, 3, 4, 1]
    rows = "".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in steps)
    (tmp_path / "p.vitals").write_text("when loss > 9 -> red")
    (tmp_path / "run.jsonl").write_text(rows)
    done = call("replay", str(tmp_path / "p.vitals"), "-" if piped else str(tmp_path / "run.jsonl"), stdin=rows)
    assert "the step goes back from 3 to 2 and once more: its rows are passed on as they are" in done.stderr
    assert done.exit_code == 0


def test_a_late_evaluation_on_a_pipe_goes_nowhere_back(tmp_path: Path) -> None:
    rows = '{"step": 1, "loss": 1}\n{"step": 9, "loss": 1}\n{"step": 5, "val_loss": 1}\n{"step": 10, "loss": 1}\n'
    (tmp_path / "p.vitals").write_text("when loss > 9 -> red")
    assert "goes back" not in call("replay", str(tmp_path / "p.vitals"), "-", stdin=rows).stderr
