"""Runs of the real wandb are watched by their files: what was logged, row for row, while it is logged and afterwards."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy
import pytest

if "CI" not in os.environ:
    pytest.importorskip("wandb")

import wandb
from vitalsdsl_wandb.places import has_ended
from vitalsdsl_wandb.references import target
from vitalsdsl_wandb.tail import LocalFeed

import vitalsdsl as vitals
from tests.wandb import run_files as w
from tests.wandb.test_tap import kept, same
from tests.wandb.transaction_log import transaction_log
from vitalsdsl.ground.errors import RunGone, TrackerError, UsageError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.watching.feeds import Feed, Wanted

ALL = Wanted(finished=True)


def drained(feed: Feed, cursor: Any = None) -> tuple[list[Row | Rewind], Any, list[str], bool]:
    """All there is now, each batch read from a cursor that went through JSON."""
    events: list[Row | Rewind] = []
    notes: list[str] = []
    while True:
        batch = feed.read(cursor)
        events += batch.events
        notes += batch.notes
        cursor = json.loads(json.dumps(batch.cursor))
        if not batch.more:
            return events, cursor, notes, batch.is_over


def pairs(events: list[Row | Rewind]) -> list[tuple[int, dict[str, float]]]:
    return [(event.step, dict(event.values)) for event in events if isinstance(event, Row)]


def only(place: Path | str, wanted: Wanted = ALL) -> Feed:
    (feed,) = target(str(place), wanted).find()
    return feed


def test_every_kind_of_call_of_a_real_run_is_read_row_for_row(offline: Path) -> None:
    began = time.time()
    with wandb.init(project="p", entity="e", id="real") as run:
        run.log({"loss": 1.0, "ok": True, "name": "text"})
        run.log({"a": 1}, commit=False)
        run.log({"b": numpy.float32(2.5), "nest": {"y": {"z": 3}}})
        run.log({"loss": math.nan, "c": "NaN", "d": -math.inf, "e": math.inf}, step=10)
        run.log({"val/loss": 2})
        run.log({"late": 1}, step=3)
        run.log({"h": wandb.Histogram([1, 2, 3]), "i": wandb.Image(numpy.zeros((4, 4, 3), dtype=numpy.uint8)), "x": 1})
        run.log({"table": wandb.Table(columns=["c"], data=[[1]]), "q": 5, "l": [1, 2], "none": None})
        run.log({"f": 1}, step=20, commit=True)
        run.log({"zero": numpy.array(4)}, step=30)
        run.log({"g": 1, "n32": numpy.float32("nan")}, step=30)
        run.log({"g": 2}, step=31)
    log = transaction_log(offline, "real")
    assert log
    feed = only(offline / "wandb")
    events, _, _, is_over = drained(feed)
    found = [(step, {k: v for k, v in row.items() if not k.startswith("system.")}) for step, row in pairs(events)]
    assert [(step, sorted((name, repr(value)) for name, value in row.items())) for step, row in found] == [
        (0, [("loss", "1.0")]),
        (1, [("a", "1.0"), ("b", "2.5"), ("nest.y.z", "3.0")]),
        (10, [("c", "nan"), ("d", "-inf"), ("e", "inf"), ("loss", "nan"), ("val/loss", "2.0")]),
        (11, [("x", "1.0")]),
        (12, [("q", "5.0")]),
        (20, [("f", "1.0")]),
        (30, [("g", "1.0"), ("n32", "nan"), ("zero", "4.0")]),
        (31, [("g", "2.0")]),
    ]
    assert same(found, kept(offline, "real"))
    assert all(began - 1 < event.time < time.time() + 1 for event in events if isinstance(event, Row))
    assert is_over and feed.uri == "wandb:e/p/real" and feed.info.name == "real"
    assert feed.ports(vitals.load("x", text="when loss > 3 -> red")) == ()
    assert isinstance(feed, LocalFeed) and not feed.is_online and (feed.entity, feed.project) == ("e", "p")


def test_a_path_of_any_kind_leads_to_the_run(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with wandb.init(project="p", id="real") as run:
        run.log({"a": 1})
    transaction_log(offline, "real")
    (file,) = (offline / "wandb").rglob("*.wandb")
    monkeypatch.chdir(offline)
    monkeypatch.setenv("HOME", str(offline))
    for place in (file, file.parent, "wandb", "./wandb/latest-run", ".", "~/wandb", file.relative_to(offline)):
        assert only(place).uri == "wandb:local/real"


def test_a_run_that_was_taken_up_again_is_one_feed(offline: Path) -> None:
    """Offline W&B knows nothing of the first time, and counts from 0 again: the run goes back."""
    for losses in ((1, 2, 3), (4, 5)):
        with wandb.init(project="p", id="twice", resume="allow") as run:
            for loss in losses:
                run.log({"loss": loss})
        transaction_log_of_all(offline)
        time.sleep(1.1)  # folders are named by the second
    events, cursor, _, is_over = drained(only(offline / "wandb"))
    assert [event.step if isinstance(event, Rewind) else event.values["loss"] for event in events] == [
        1,
        2,
        3,
        -1,
        4,
        5,
    ]
    assert is_over
    with wandb.init(project="p", id="twice", resume="allow") as run:
        for step, loss in ((2, 6), (3, 7)):
            run.log({"loss": loss}, step=step)
    transaction_log_of_all(offline)
    events, _, _, is_over = drained(only(offline / "wandb"), cursor)
    assert pairs_of_loss(events) == [(2, 6.0), (3, 7.0)] and is_over


def pairs_of_loss(events: list[Row | Rewind]) -> list[tuple[int, float]]:
    return [(event.step, event.values["loss"]) for event in events if isinstance(event, Row)]


def transaction_log_of_all(folder: Path) -> None:
    """Wait until W&B's own process has written the end of every run."""
    until = time.monotonic() + 20
    while not all(has_ended(file) for file in folder.rglob("run-*.wandb")):
        assert time.monotonic() < until, "W&B wrote no end of a run"
        time.sleep(0.05)


TRAINING = textwrap.dedent("""
    import sys, time
    import wandb

    run = wandb.init(project="p", id="live")
    print("begun", flush=True)
    for step in range(int(sys.argv[1])):
        run.log({"loss": step, "t": time.time()})
        time.sleep(0.05)
    run.finish()
""")


def start(folder: Path, rows: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(rows)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_live_run_is_read_while_it_logs(offline: Path) -> None:
    (offline / "wandb").mkdir()
    runs = target(str(offline / "wandb"), Wanted())
    assert runs.find() == []
    training = start(offline, 120)
    events: list[Row | Rewind] = []
    cursor: Any = None
    is_over = False
    lags = []
    until = time.monotonic() + 90
    while not is_over and time.monotonic() < until:
        for feed in runs.find():
            new, cursor, _, is_over = drained(feed, cursor)
            lags += [time.time() - event.values["t"] for event in new if isinstance(event, Row)]
            events += new
        time.sleep(0.1)
    assert training.wait(60) == 0
    assert pairs_of_loss(events) == [(step, float(step)) for step in range(120)]
    assert is_over and sorted(lags)[len(lags) // 2] < 8  # about 0.6 s on a quiet machine


def test_a_killed_process_leaves_what_was_written_and_never_an_end(offline: Path) -> None:
    training = start(offline, 10_000)
    feeds: list[Feed] = []
    until = time.monotonic() + 60
    while time.monotonic() < until and (not feeds or len(drained(feeds[0])[0]) < 20):
        time.sleep(0.2)
        feeds = list(target(str(offline), Wanted()).find()) if (offline / "wandb").is_dir() else []
    os.kill(training.pid, signal.SIGKILL)
    training.wait(30)
    (file,) = offline.rglob("run-live.wandb")
    time.sleep(2.5)  # W&B's own process may notice and write what it holds
    file.write_bytes(file.read_bytes()[:-3])
    events, cursor, _, is_over = drained(feeds[0])
    steps = [event.step for event in events]
    assert steps == list(range(len(steps))) and steps and not is_over
    assert drained(feeds[0], cursor)[0] == []


class TestWhatIsFound:
    def folder(self, tmp_path: Path) -> Path:
        row = w.history({"a": 1}, 0)
        w.write(tmp_path, "done", [w.run("done", tags=["x", "team:a"]), row, w.end()], "20260101_120000")
        w.write(tmp_path, "going", [w.run("going", entity="e", project="p", tags=["x"]), row], "20260102_120000")
        w.write(tmp_path, "empty", [], "20260103_120000")
        return tmp_path

    def ids(self, found: Any) -> list[str]:
        return [feed.info.name for feed in found]

    def test_runs_that_go_on_and_with_finished_those_that_ended(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        assert self.ids(target(str(folder), Wanted()).find()) == ["going"]
        assert self.ids(target(str(folder), Wanted(finished=True)).find()) == ["done", "going"]
        assert [feed.uri for feed in target(str(folder), ALL).find()] == ["wandb:local/done", "wandb:e/p/going"]

    def test_runs_by_their_tags(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        for tags, ids in (
            ({"x": None}, ["done", "going"]),
            ({"team": "a"}, ["done"]),
            ({"team": None, "x": None}, ["done"]),
            ({"team": "b"}, []),
        ):
            assert self.ids(target(str(folder), Wanted(tags=tags, finished=True)).find()) == ids

    def test_a_run_that_a_path_names_is_found_though_it_has_ended(self, tmp_path: Path) -> None:
        (file,) = self.folder(tmp_path).rglob("run-done.wandb")
        for place in (file, file.parent):
            assert self.ids(target(str(place), Wanted()).find()) == ["done"]

    def test_runs_that_begin_later_are_found_even_if_they_end_at_once(self, tmp_path: Path) -> None:
        runs = target(str(self.folder(tmp_path)), Wanted())
        assert self.ids(runs.find()) == ["going"]
        w.write(tmp_path, "new", [w.run("new"), w.history({"a": 1}, 0), w.end()], "20260104_120000")
        assert self.ids(runs.find()) == ["going", "new"]

    def test_a_file_without_an_end_that_is_old_is_taken_for_a_killed_process_until_it_grows(
        self, tmp_path: Path
    ) -> None:
        folder = self.folder(tmp_path)
        (file,) = folder.rglob("run-going.wandb")
        os.utime(file, (time.time() - 90_000,) * 2)
        runs = target(str(folder), Wanted())
        assert self.ids(runs.find()) == []
        os.utime(file)
        assert self.ids(runs.find()) == ["going"]

    def test_a_run_that_has_written_nothing_yet_is_found_when_it_does(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        runs = target(str(folder), Wanted())
        runs.find()
        w.write(tmp_path, "empty", [w.run("empty"), w.history({"a": 1}, 0)], "20260103_120000")
        assert self.ids(runs.find()) == ["going", "empty"]

    def test_the_planned_length_is_that_of_the_configuration_at_the_first_row(self, tmp_path: Path) -> None:
        def config(**values: Any) -> bytes:
            record = w.messages.Record()
            for key, value in values.items():
                record.config.update.add(key=key, value_json=json.dumps(value))
            return record.SerializeToString()

        payloads = [
            w.run("a"),
            config(max_steps=500, lr=0.1, text="x" * 99),
            w.history({"a": 1}, 0),
            config(max_steps=9),
        ]
        feed = only(w.write(tmp_path, "a", payloads))
        assert feed.info.total_steps == 500

    def test_damage_at_the_beginning_leaves_the_id_of_the_files_name(self, tmp_path: Path) -> None:
        file = w.write(tmp_path, "a", [w.run("a", project="p"), *(w.history({"a": i}, i) for i in range(2000))])
        data = bytearray(file.read_bytes())
        data[20] ^= 1
        file.write_bytes(data)
        feed = only(file)
        events, _, notes, _ = drained(feed)
        assert feed.uri == "wandb:local/a" and len(events) > 1000 and "bad blocks: 1" in notes[0]


def test_batches_are_small_and_lose_nothing(tmp_path: Path) -> None:
    rows = [w.history({f"m{k}": k for k in range(20)}, i) for i in range(3000)]
    feed = only(w.write(tmp_path, "a", [w.run("a"), *rows, w.end()]))
    first = feed.read(None)
    assert first.more and not first.is_over and 9_000 < sum(len(e.values) for e in first.events) < 11_000  # type: ignore[union-attr]
    events, _, _, is_over = drained(feed)
    assert [event.step for event in events] == list(range(3000)) and is_over


def test_what_was_decided_is_said_once_over_all_readings(tmp_path: Path) -> None:
    payloads = [w.header("0.22.3"), w.run("a"), w.step_metric("*", "k"), w.history({"a": 1, "k": 5}, 0)]
    feed = only(w.write(tmp_path, "a", payloads))
    _, cursor, notes, _ = drained(feed)
    assert len(notes) == 2
    w.write(tmp_path, "a", [*payloads, w.history({"a": 1, "k": 6}, 1)])
    assert drained(feed, cursor)[2] == []


def test_a_run_whose_folder_was_deleted_is_gone(tmp_path: Path) -> None:
    file = w.write(tmp_path, "a", [w.run("a"), w.history({"a": 1}, 0)])
    runs = target(str(file), Wanted())
    (feed,) = runs.find()
    _, cursor, _, _ = drained(feed)
    file.unlink()
    file.parent.rmdir()
    with pytest.raises(RunGone, match="there no longer"):
        feed.read(cursor)
    assert runs.find() == []


def test_a_file_of_an_unknown_version_is_refused_for_good(tmp_path: Path) -> None:
    file = w.write(tmp_path, "a", [w.run("a")])
    file.write_bytes(file.read_bytes()[:6] + b"\x01" + file.read_bytes()[7:])
    w.write(tmp_path, "b", [w.run("b"), w.history({"a": 1}, 0)], "20260102_120000")
    refused, good = target(str(tmp_path), Wanted()).find()
    with pytest.raises(TrackerError, match="version 1 of W&B's file format") as raised:
        refused.read(None)
    assert raised.value.is_final and not isinstance(raised.value, RunGone)
    assert good.info.name == "b" and len(good.read(None).events) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_said_and_tried_again(tmp_path: Path) -> None:
    file = w.write(tmp_path, "a", [w.run("a")])
    file.chmod(0)
    with pytest.raises(TrackerError, match="run a cannot be read: permission denied") as raised:
        only(tmp_path).read(None)
    assert not raised.value.is_final


@pytest.mark.parametrize("rest", ["./nothing", "/nothing/here", "run-x.wandb", "~/nothing.wandb"])
def test_a_path_that_is_not_there_is_said_at_once(rest: str) -> None:
    with pytest.raises(UsageError, match="there is no"):
        target(rest, Wanted())


def test_the_folder_of_wandb_may_come_later_and_go(tmp_path: Path) -> None:
    runs = target(str(tmp_path / "wandb"), Wanted())
    assert runs.is_open and runs.find() == []
    file = w.write(tmp_path / "wandb", "a", [w.run("a"), w.history({"a": 1}, 0), w.end()])
    (feed,) = runs.find()
    assert feed.info.name == "a" and feed.interval == 1
    assert not target(str(file), Wanted()).is_open
    shutil.rmtree(tmp_path / "wandb")
    assert runs.find() == []


def test_a_file_of_another_kind_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UsageError, match="neither a `.wandb` file nor a folder"):
        target(str(tmp_path / "notes.txt"), Wanted())
