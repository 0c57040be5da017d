"""A watcher whose key expires, whose disk fills up, whose store is locked, and that comes and goes while a run is silent."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from acting import change, dispatcher
from feeding import ScriptedRun, ScriptedTarget, rows
from test_watcher import Seen, policy, wait_for

import vitalsdsl as vitals
from vitalsdsl.acting.delivery import Retry
from vitalsdsl.acting.journal import Journal, journal_of
from vitalsdsl.acting.memory import Memory
from vitalsdsl.acting.tracker import Alert
from vitalsdsl.ground.errors import NotLetIn, StateError
from vitalsdsl.language.rules import Level
from vitalsdsl.watching import store, troubles, watched, watcher
from vitalsdsl.watching.store import STORE
from vitalsdsl.watching.watcher import Assignment, Watcher

SPIKE = "policy p\nrule spike { when loss > 3 for 3 steps -> orange }"
KEY = "the key is refused"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE", 0.0)
    for dice in (watcher._dice, troubles._dice):
        monkeypatch.setattr(dice, "uniform", lambda low, high: 0.0)


@contextmanager
def going(home: Path, *runs: ScriptedRun, text: str = SPIKE) -> Iterator[Seen]:
    """A watch that goes on while the test plays."""
    seen = Seen()
    watch = Watcher([Assignment(ScriptedTarget(*runs, is_open=True), policy(text))], home, shows=seen)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield seen
    finally:
        watch.stop()
        thread.join(30.0)
        assert not thread.is_alive()


# -------------------------------------------------------------------- the key


def test_a_key_that_expires_and_is_renewed_ends_no_watch(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5))
    run.go_on(5)
    with going(tmp_path, run) as seen:
        wait_for(lambda: run.reads > 2)
        run.failures = [NotLetIn(KEY) for _ in range(20)]
        wait_for(lambda: not run.failures)
        run.go_on()
        wait_for(lambda: bool(run.port.alerts))
    assert [t.step for t in seen.transitions] == [12]
    assert seen.lines == [f"{KEY}; trying again", f"all is well again after: {KEY}"]


def test_a_key_that_was_never_taken_is_refused_for_good(tmp_path: Path) -> None:
    run = ScriptedRun("a", rows([1.0] * 5), failures=[NotLetIn(KEY)] * 2)
    with going(tmp_path, run) as seen:
        wait_for(lambda: bool(seen.lines))
    assert seen.lines == [KEY] and len(run.failures) == 1


class Expiring(Memory):
    """A tracker with a key that is refused while it is told so."""

    is_expired = False

    def alert(self, alert: Alert) -> None:
        if self.is_expired:
            raise NotLetIn(KEY)
        super().alert(alert)


def test_an_alert_waits_for_a_key_that_has_expired() -> None:
    port = Expiring()
    acts = dispatcher(
        "rule a { when loss > 3 -> yellow }", port, start_worker=True, retry=Retry(10_000, 0.001, 0.002, 60.0)
    )
    acts.take([change("a", 1, Level.YELLOW)])
    assert acts.flush(10.0)
    port.is_expired = True
    acts.take([change("a", 2, Level.YELLOW)])
    assert not acts.flush(0.05)
    port.is_expired = False
    assert acts.flush(10.0)
    assert [alert.transition.step for alert in port.alerts] == [1, 2]
    acts.close(1.0)


@pytest.mark.parametrize("is_unknown", [True, False], ids=["a key that nobody knows", "a key that may only read"])
def test_of_keys_that_were_never_taken_only_one_that_may_not_write_is_given_up(is_unknown: bool) -> None:
    class Closed(Memory):
        def _refuse(self, *told: object) -> None:
            raise NotLetIn(KEY, is_unknown=is_unknown)

        alert = tag_level = tag_rules = record = record_policy = _refuse  # type: ignore[assignment]

    patient = Retry(10_000, 0.001, 0.002, 60.0)
    acts = dispatcher("rule a { when loss > 3 -> yellow }", Closed(), start_worker=True, retry=patient)
    acts.take([change("a", 1, Level.YELLOW)])
    assert acts.flush(0.3 if is_unknown else 20.0) != is_unknown
    acts.close(0.0)


# -------------------------------------------------------------------- the store


def test_a_store_that_is_locked_holds_up_no_reading_and_is_two_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_BUSY", 0.01)
    monkeypatch.setattr(watched, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(troubles, "CALM", 0.2)
    monkeypatch.setattr(watcher, "LEASE", 0.03)
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5 + [1.0] * 5))
    run.go_on(5)
    with going(tmp_path, run) as seen:
        wait_for(lambda: run.reads > 2)
        other = sqlite3.connect(tmp_path / STORE, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        run.go_on(10)
        wait_for(lambda: bool(run.port.alerts))
        wait_for(lambda: bool(seen.lines))
        other.execute("ROLLBACK")
        other.close()
        run.go_on()
        reads = run.reads
        wait_for(lambda: run.reads > reads + 3)
        wait_for(lambda: len(seen.lines) > 1)
    assert [(t.step, t.to.word) for t in seen.transitions] == [(12, "orange"), (17, "green")]
    assert len(seen.lines) == 2 and "database is locked; trying again" in seen.lines[0]
    assert seen.lines[1].startswith("all is well again after: ")
    kept = store.Store(tmp_path / STORE).bookmark("scripted:a", policy(SPIKE).digest)
    assert kept is not None and kept.cursor == {"at": 20}


def test_no_bookmark_goes_beyond_what_the_journal_has_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a watcher that dies on a full disk would not read again what it has decided about, and nobody would."""
    monkeypatch.setattr(watched, "SAVE_EVERY", 0.0)
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5), at_a_time=100)
    run.go_on(5)
    p, real = policy(SPIKE), os.write
    full = threading.Event()

    def write(fd: int, data: bytes) -> int:
        if full.is_set() and b'"intent"' in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    kept = store.Store(tmp_path / STORE)

    def at() -> Any:
        bookmark = kept.bookmark("scripted:a", p.digest)
        return bookmark.cursor if bookmark else None

    with going(tmp_path, run):
        wait_for(lambda: at() == {"at": 5})
        full.set()
        run.go_on()
        wait_for(lambda: bool(run.port.alerts))
        reads = run.reads
        wait_for(lambda: run.reads > reads + 3)
        assert at() == {"at": 5}
        assert Journal(journal_of(tmp_path, "a", "p")).ledger("a").seen == set()
        full.clear()
        wait_for(lambda: at() == {"at": 15})
    assert len(Journal(journal_of(tmp_path, "a", "p")).ledger("a").seen) == 1


def test_a_bookmark_that_cannot_be_written_costs_no_line_of_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, *words: Any) -> None:
        raise StateError("the store cannot be written: database or disk is full")

    monkeypatch.setattr(store.Store, "keep", refuse)
    run = ScriptedRun("a", rows([1.0] * 10 + [4.0] * 5))
    run.go_on(over=True)
    seen = Seen()
    Watcher([Assignment(ScriptedTarget(run), policy(SPIKE))], tmp_path, shows=seen).run(once=True)
    assert [t.step for t in seen.transitions] == [12] and len(run.port.alerts) == 1
    assert seen.lines == ["the store cannot be written: database or disk is full; trying again"]


# -------------------------------------------------------------------- silence, over watchers that come and go

SILENT = "policy p\nrule silent { when stalled for 10 min -> orange }"


class Clocks:
    """This machine's two clocks, set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = 5_000_000.0, 700.0
        monkeypatch.setattr("vitalsdsl.watching.watched.time.time", lambda: self.wall)
        monkeypatch.setattr("vitalsdsl.watching.watched.time.monotonic", lambda: self.steady)

    def go_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def looked(home: Path, run: ScriptedRun) -> list[int]:
    """The steps of what one process saw change, that looks once and ends, as a row of a cron table does."""
    p = vitals.load("p", text=SILENT)
    kept, journal = store.Store(home / STORE), Journal(journal_of(home, run.name, "p"))
    (feed,) = ScriptedTarget(run).find()
    one = watched.Watched(feed, p, dispatcher(SILENT, journal=journal), journal, kept)
    found = [d.transition.step for d in one.look().decisions if not d.is_repeat]
    one.close(1.0)
    kept.close()
    return found


@pytest.mark.parametrize("skew", [-86_400.0, 0.0, 86_400.0], ids=["a day behind", "in step", "a day ahead"])
def test_silence_is_seen_by_processes_none_of_which_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    """Whatever the clock of the machine that trains says: time is counted from when a point was heard of."""
    clocks = Clocks(monkeypatch)
    clocks.wall += skew
    run = ScriptedRun("a", rows([1.0] * 5), at_a_time=100)
    run.go_on()
    found = []
    for _ in range(5):
        found.append(looked(tmp_path, run))
        clocks.go_by(200.0)
    assert found == [[], [], [], [3], []]


@pytest.mark.parametrize("jump", ["the clock is set a day ahead", "a day back", "another machine", "started anew"])
def test_a_clock_that_was_set_meanwhile_makes_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: str
) -> None:
    clocks = Clocks(monkeypatch)
    run = ScriptedRun("a", rows([1.0] * 5), at_a_time=100)
    run.go_on()
    assert looked(tmp_path, run) == []
    clocks.go_by(60.0)
    clocks.wall += {"the clock is set a day ahead": 86_400.0, "a day back": -86_400.0}.get(jump, 0.0)
    clocks.steady += {"another machine": 900_000.0, "started anew": -755.0}.get(jump, 0.0)
    assert looked(tmp_path, run) == []
