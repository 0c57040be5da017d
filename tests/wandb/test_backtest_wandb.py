"""A backtest over a folder in which W&B's own lies: each run once, however many files it has."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from run_files import end, header, history, run, write

from vitalsdsl.backtesting.backtest import backtest
from vitalsdsl.cli.app import vitals


def test_the_runs_of_a_folder_of_wandb_s_are_judged_once_each(tmp_path: Path) -> None:
    folder = tmp_path / "project" / "wandb"
    steps = [history({"loss": 5.0 if step >= 3 else 1.0}, step) for step in range(8)]
    write(folder, "one", [header(), run("one"), *steps[:5]], stamp="20260101_120000")
    write(folder, "one", [header(), run("one", resumed=True), *steps[5:], end()], stamp="20260101_130000")
    write(folder, "two", [header(), run("two"), *steps[:3], end()], stamp="20260102_120000", online=False)
    (tmp_path / "project" / "own.jsonl").write_text(json.dumps({"step": 1, "loss": 9.0}) + "\n")
    (tmp_path / "p.vitals").write_text("when loss > 3 for 2 steps -> orange\nwhen loss > 8 -> red\n")
    found = backtest(tmp_path / "p.vitals", tmp_path / "project")
    assert found.unread == ()
    assert {run.name: ([(c.step, c.to.word) for c in run.changes], len(run.steps)) for run in found.runs} == {
        "own.jsonl": ([(1, "red")], 1), "one": ([(4, "orange")], 8), "two": ([], 3),
    }  # fmt: skip
    result = CliRunner().invoke(vitals, ["replay", str(tmp_path / "p.vitals"), str(tmp_path), "--format", "jsonl"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["run"], line["step"], line["to"]) for line in lines] == [
        ("project/own.jsonl", 1, "red"),
        ("one", 4, "orange"),
    ]
