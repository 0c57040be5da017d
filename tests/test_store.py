"""A watcher's store: whole bookmarks and single leases, with many processes, and on a disk that fails."""

from __future__ import annotations

import math
import multiprocessing
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from vitalsdsl.ground.errors import StateError
from vitalsdsl.watching.store import LEASE, MARGIN, Bookmark, Store, Visit, last_visit

FORK = multiprocessing.get_context("fork")


def test_a_bookmark_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = Bookmark({"at": 7, "key": "ü"}, {"rules": [1.5, None, {"a": True}]}, (3, 5), True)
    store = Store(tmp_path / "deep" / "watch.db")
    assert store.bookmark("u", "d") is None
    store.keep("u", "d", kept)
    store.keep("u", "other", Bookmark(None, None))
    store.close()
    again = Store(tmp_path / "deep" / "watch.db")
    assert again.bookmark("u", "d") == kept and again.bookmark("u", "other") == Bookmark(None, None)
    again.keep("u", "d", Bookmark({"at": 8}, None))
    assert again.bookmark("u", "d") == Bookmark({"at": 8}, None)


def _keep(path: Path, name: int, start: Any) -> None:
    start.wait()
    store = Store(path)
    for number in range(30):
        store.keep(f"run-{name}", "d", Bookmark({"at": number}, {"x": "y" * 2000}))
        store.keep("shared", "d", Bookmark({"at": number, "by": name}, {"by": name}))
    store.close()


def test_processes_that_begin_and_write_together_lose_nothing(tmp_path: Path) -> None:
    start = FORK.Barrier(4)
    processes = [FORK.Process(target=_keep, args=(tmp_path / "watch.db", name, start)) for name in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    store = Store(tmp_path / "watch.db")
    for name in range(4):
        kept = store.bookmark(f"run-{name}", "d")
        assert kept is not None and kept.cursor == {"at": 29}
    shared = store.bookmark("shared", "d")
    assert shared is not None and shared.cursor is not None and shared.state == {"by": shared.cursor["by"]}


def _lease(path: Path, name: int, start: Any, won: Any) -> None:
    store = Store(path)
    start.wait()
    for run in range(20):
        if store.lease(f"run-{run}", "d", f"elsewhere-{name}:1:x", 1000.0):
            won.put((run, name))
    won.put(None)


def test_of_processes_that_reach_for_one_lease_together_one_gets_it(tmp_path: Path) -> None:
    start, won = FORK.Barrier(4), FORK.Queue()
    path = tmp_path / "watch.db"
    Store(path).close()
    processes = [FORK.Process(target=_lease, args=(path, name, start, won)) for name in range(4)]
    for process in processes:
        process.start()
    found, ended = [], 0
    while ended < 4:
        one = won.get(timeout=60)
        ended += one is None
        found += [one] if one is not None else []
    for process in processes:
        process.join()
    assert sorted(run for run, _ in found) == list(range(20))


def test_threads_share_one_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "watch.db")
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(30):
                store.keep(f"run-{name}", "d", Bookmark({"at": number}, None))
                assert store.lease(f"run-{name}", "d", f"h:{name}:x", 1000.0)
                assert store.bookmark(f"run-{name}", "d") == Bookmark({"at": number}, None)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_file_that_is_no_store_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "watch.db"
    path.write_bytes(b"not a database, but somebody's notes " * 100)
    before = path.read_bytes()
    with pytest.raises(StateError, match="watch.db cannot be used as the watcher's store"):
        Store(path)
    assert path.read_bytes() == before
    with pytest.raises(StateError, match="cannot be used as the watcher's store"):
        Store(path / "below")


def filled(path: Path) -> None:
    """A store with some pages."""
    store = Store(path)
    for run in range(20):
        store.keep(f"run-{run}", "d", Bookmark({"at": run}, {"x": os.urandom(3000).hex()}))
    store.close()


@pytest.mark.parametrize("what", ["its pages", "all of it"])
@pytest.mark.parametrize("when", ["before it is opened", "while it is open"])
def test_a_store_that_is_damaged_is_set_aside_said_and_begun_anew(
    what: str, when: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "watch.db"
    store = Store(path)
    filled(path)
    data = bytearray(path.read_bytes())
    begin = 4096 if what == "its pages" else 0
    data[begin:] = (b"\xaa" if begin else b"\0") * (len(data) - begin)
    if when == "before it is opened":
        store.close()
    path.write_bytes(data)
    said = "watch.db was damaged: it lies as watch.db.damaged now, and runs are read anew from their beginning"
    heard = []
    try:
        store = Store(path) if when == "before it is opened" else store
        for run in range(20):
            store.bookmark(f"run-{run}", "d")
    except StateError as error:
        heard.append(str(error))
    heard += [record.getMessage() for record in caplog.records]
    assert len(heard) == 1 and heard[0].endswith(said)
    assert (tmp_path / "watch.db.damaged").read_bytes()[begin + 5000 :] == data[begin + 5000 :]
    store.keep("run-1", "d", Bookmark({"at": 7}, None))
    assert store.lease("run-1", "d", "h:1:x", 1000.0)
    assert Store(path).bookmark("run-1", "d") == Bookmark({"at": 7}, None)


def test_of_two_watchers_only_one_sets_a_damaged_store_aside(tmp_path: Path) -> None:
    path = tmp_path / "watch.db"
    stores = [Store(path) for _ in range(2)]
    filled(path)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xaa" * (len(data) - 4096)
    path.write_bytes(data)
    for store in stores:
        with pytest.raises(StateError, match="was damaged"):
            for run in range(20):
                store.bookmark(f"run-{run}", "d")
    stores[0].keep("u", "d", Bookmark({"at": 1}, None))
    assert stores[1].bookmark("u", "d") == Bookmark({"at": 1}, None)
    assert (tmp_path / "watch.db.damaged").stat().st_size == len(data)


def test_a_lease_from_a_clock_that_is_a_day_ahead_runs_out_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [5000.0]
    monkeypatch.setattr("vitalsdsl.watching.store.time.monotonic", lambda: now[0])
    store = Store(tmp_path / "watch.db")
    assert store.lease("u", "d", "elsewhere:1:x", 1000.0 + 86_400)
    for beat in range(4):  # it is renewed: whoever holds it is alive
        assert not store.lease("u", "d", "here:1:x", 1000.0 + beat * LEASE / 2)
        assert store.lease("u", "d", "elsewhere:1:x", 1000.0 + 86_400 + (beat + 1) * LEASE / 2)
        now[0] += LEASE / 2
    assert not store.lease("u", "d", "here:1:x", 1000.0 + 2 * LEASE)
    now[0] += LEASE + 1
    assert store.lease("u", "d", "here:1:x", 1000.0 + 3 * LEASE + 1)


@pytest.mark.parametrize("column", ["cursor", "state", "rewinds"])
@pytest.mark.parametrize("damage", [b"\x00\x01", "{", "3 nonsense", None])
def test_a_bookmark_that_is_damaged_is_as_good_as_none(column: str, damage: object, tmp_path: Path) -> None:
    path = tmp_path / "watch.db"
    store = Store(path)
    store.keep("u", "d", Bookmark({"at": 1}, {"x": 1}))
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE runs SET {column} = ?", (damage,))
    found = store.bookmark("u", "d")
    assert found is None or column == "state" and damage is None and found.state is None


def test_on_a_full_disk_the_last_bookmark_stays_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "watch.db")
    store.keep("u", "d", Bookmark({"at": 1}, {"x": 1}))
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own way to a disk that is full
    with pytest.raises(StateError, match="cannot be written: database or disk is full"):
        store.keep("u", "d", Bookmark({"at": 2}, {"x": os.urandom(50_000).hex()}))
    assert store.bookmark("u", "d") == Bookmark({"at": 1}, {"x": 1})
    store.keep("u", "d", Bookmark({"at": 3}, {"x": 3}))
    assert store.bookmark("u", "d") == Bookmark({"at": 3}, {"x": 3})


def test_a_disk_that_fills_up_within_a_visit_is_called_by_its_name_and_forgets_the_visit(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError, match="database or disk is full"):
        store.visited("t", "d", 1.0, [f"{number} {'x' * 500}" for number in range(20_000)])
    store._db.execute("PRAGMA max_page_count = 100000")
    store.visited("t", "d", 2.0, ["a"])
    assert store.visit("t", "d").begun == {"a"} and store.visit("t", "d").first == 2.0


def test_one_that_can_only_be_read_is_read_and_the_rest_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path / "watch.db")
    store.keep("u", "d", Bookmark({"at": 1}, None))
    store._db.execute("PRAGMA query_only = ON")  # as on a disk that is read-only; root may write files that are
    assert store.bookmark("u", "d") == Bookmark({"at": 1}, None)
    with pytest.raises(StateError, match="cannot be written"):
        store.keep("u", "d", Bookmark({"at": 2}, None))
    with pytest.raises(StateError, match="cannot be written"):
        store.lease("u", "d", "h:1:x", 1000.0)
    store.release("h:1:x")


def test_a_lease_that_is_renewed_lasts(tmp_path: Path) -> None:
    store = Store(tmp_path / "watch.db")
    for beat in range(4):
        assert store.lease("u", "d", "one:1:x", 1000.0 + beat * LEASE / 2)
    assert not store.lease("u", "d", "two:1:x", 1000.0 + 2 * LEASE)
    assert store.lease("u", "another policy", "two:1:x", 1000.0)
    assert store.lease("u", "d", "two:1:x", 1000.0 + 2.5 * LEASE + 1)


def test_visits_and_begun_runs_are_those_of_one_target_and_policy(tmp_path: Path) -> None:
    store = Store(tmp_path / "watch.db")
    assert store.visit("t", "d") == Visit() and store.visit("t", "d").ended_after == math.inf
    store.visited("t", "d", 1000.0, ["a", "b"])
    store.visited("t", "d", 1100.0, ["b", "c"])
    store.visited("other", "d", 5000.0, ["z"])
    assert store.visit("t", "d") == Visit(1000.0, 1100.0, frozenset("abc"))
    assert store.visit("t", "other") == Visit()
    store.settled("a", "d")
    store.settled("z", "x")
    assert store.visit("t", "d").begun == frozenset("bc") and store.visit("other", "d").begun == frozenset("z")
    store.close()
    assert last_visit(tmp_path, "t", "d") == Visit(1000.0, 1100.0, frozenset("bc"))
    assert last_visit(tmp_path / "none", "t", "d") == Visit() and not (tmp_path / "none").exists()


def test_what_had_ended_before_the_first_visit_is_never_asked_for() -> None:
    assert Visit(1000.0, 1100.0).ended_after == 1000.0
    assert Visit(1000.0, 9000.0).ended_after == 9000.0 - MARGIN
