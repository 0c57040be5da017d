"""Runs and metrics are called what somebody logged: nothing that a terminal, rich or a page would obey comes through."""

from __future__ import annotations

import io
import json
import logging
import math
from pathlib import Path

import pytest
from acting import alarms
from click.testing import CliRunner
from feeding import ScriptedFeed, ScriptedRun, ScriptedTarget, rows
from rich.console import Console

import vitalsdsl as vitals
from vitalsdsl.cli.app import HarmlessLines
from vitalsdsl.cli.app import vitals as program
from vitalsdsl.cli.watch import _Lines, _Shown, _Table
from vitalsdsl.ground.points import RunInfo
from vitalsdsl.watching.watcher import Assignment, Watcher

NAME = "[red]a[/] \"q\" 'p' `x` <script>alert(1)</script>\n\x1b[31m\x1b]0;owned\x07\r\u202e{x} %s"
SHOWN = "[red]a[/] \"q\" 'p' `x` <script>alert(1)</script>\\n\\x1b[31m\\x1b]0;owned\\x07\\r\\u202e{x} %s"
METRIC = "[bold]loss[/bold] <b>\x1b[2J\u2028"
QUOTED = f'"{METRIC}"'


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("VITALS_HOME", raising=False)
    monkeypatch.setattr(ScriptedFeed, "info", property(lambda feed: RunInfo(feed.run.name, title=NAME)))


def watched(shows: _Shown) -> ScriptedRun:
    """A run of which an evil metric goes bad, and another is NaN."""
    run = ScriptedRun("r\x1b[1m", [*rows([1.0] * 5 + [9.0] * 5, name=METRIC), *rows([math.nan], first=10, name=METRIC)])
    run.notes = (f"a note on {METRIC}",)
    run.go_on(over=True)
    policy = vitals.load("p", text=f"policy p\nrule hot {{ when {QUOTED} > 3 -> red }}")
    shows.found(NAME, [ScriptedFeed(run).info])
    Watcher([Assignment(ScriptedTarget(run), policy)], Path(".vitals"), shows=shows).run(once=True)
    return run


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def test_the_live_table_shows_names_as_they_are() -> None:
    table = _Table()
    watched(table)
    out = io.StringIO()
    Console(file=out, width=2000, force_terminal=False).print(table._drawn())
    text = out.getvalue()
    assert harmless(text)
    assert SHOWN in text and "[bold]loss[/bold] <b>\\x1b[2J\\u2028" in text
    assert "nonfinite([bold]loss[/bold]" in text and "red" in text
    assert len(text.splitlines()) <= 8  # a line each, however many a name would make of it


def test_lines_and_what_is_said_show_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    watched(_Lines(dry_run=False))
    said = capsys.readouterr()
    # Colours, on a terminal, are ours; here there is none.
    assert SHOWN in said.out and SHOWN in said.err
    assert harmless(said.out) and harmless(said.err)


def test_messages_hold_no_control_characters() -> None:
    run = watched(_Shown())
    assert len(alarms(run.port)) == 2
    for alert in run.port.alerts:
        assert alert.title.isprintable() and harmless(alert.text)
        assert "<script>" in alert.title  # channels and pages take it for text, each in its own way


def test_recorded_runs_are_replayed_and_explained_without_harm(tmp_path: Path) -> None:
    Path("p.vitals").write_text(f"policy p\nrule hot {{ when {QUOTED} > 3 -> red }}\n", "utf-8")
    log = [{"step": step, METRIC: value} for step, value in enumerate([1.0, 9.0, math.nan])]
    Path("run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log), "utf-8")
    for words in (("replay", "p.vitals", "run.jsonl"), ("explain", "p.vitals"), ("explain", "p.vitals", "run.jsonl"),
                  ("check", "p.vitals", "--format", "text")):  # fmt: skip
        done = CliRunner().invoke(program, list(words))
        assert done.exit_code in (0, 1) and "[bold]loss[/bold]" in done.output
        assert harmless(done.output), (words, done.output)


def test_log_lines_of_the_program_hold_no_control_characters() -> None:
    record = logging.LogRecord("vitalsdsl", logging.WARNING, "", 0, "run %s\nis off", (NAME,), None)
    assert harmless(HarmlessLines().format(record)) and "is off" in HarmlessLines().format(record)
