"""The journal: what stands in it is known again, whatever happened to the file or the disk."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acting import START, O, R, Y, change, dispatcher, policy, three
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal, journal_of, journals_of
from vitalsdsl.acting.ledger import silence
from vitalsdsl.acting.memory import Memory
from vitalsdsl.ground.errors import UsageError
from vitalsdsl.ground.points import RunInfo

POLICY = three("limit rollback 2 per 1000 steps")


def filled(path: Path) -> list[str]:
    """A journal with a handful of decisions; the ids on which something was done."""
    journal = Journal(path)
    acts = dispatcher(POLICY, journal=journal)
    stream = [change("a", 10, Y), change("a", 20, R, Y), change("b", 30, O), change("a", 40, O, R), change("c", 50, R)]
    decisions = [d for t in stream for d in acts.take([t])]
    acts.silence("b", "known", until=START + 60)
    acts.close(1.0)
    journal.close()
    return [d.transition.id for d in decisions if d.acts]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_an_intent_stands_on_disk_before_the_deed_and_done_after_it(tmp_path: Path) -> None:
    path = tmp_path / "vitals.jsonl"
    seen: list[list[str]] = []
    port = Memory(watch=lambda what: seen.append([r["type"] for r in lines(path)]) if what == "request" else None)
    acts = dispatcher(POLICY, port, journal=Journal(path))
    acts.take([change("a", 10, R)])
    acts.close(1.0)
    assert seen == [["intent"]]
    assert [(r["type"], r.get("deed")) for r in lines(path)] == [("intent", None), ("done", 1), ("done", 0)]


def test_every_line_is_synced_before_the_deed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), real(fd))[1])
    acts = dispatcher(POLICY, Memory(watch=order.append), journal=Journal(tmp_path / "j"))
    order.clear()
    acts.take([change("a", 10, R)])
    acts.close(1.0)
    assert order[:2] == ["fsync", "request"]


def test_a_journal_read_again_remembers_what_was_decided(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "vitals.jsonl"
    acted = filled(path)
    ledger = Journal(path).ledger("run")
    assert set(acted) < ledger.seen and len(ledger.seen) == 5
    assert [then.lived for then in ledger.used["rollback"]] == [10, 40]
    assert {k: v[0] for k, v in ledger.acted.items()} == {("a", None): R, ("b", None): O, ("c", None): R}
    assert [(s.rule, s.reason) for s in ledger.silences] == [("b", "known")]
    assert {rule: ledger.highest(rule) for rule in "abc"} == {"a": O, "b": O, "c": R}
    assert (ledger.lived, ledger.step, ledger.requests) == (40, 50, 3)


def test_a_journal_cut_at_any_byte_is_read_and_goes_on(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    filled(whole)
    data = whole.read_bytes()
    cut = tmp_path / "cut"
    for at in range(0, len(data) + 1, 11):
        cut.write_bytes(data[:at])
        journal = Journal(cut)
        kept = [json.loads(line) for line in data[:at].split(b"\n") if line.endswith(b"}") and _whole(line)]
        assert journal.ledger("run").seen == {r["id"] for r in kept if r["type"] in ("intent", "noted")}
        journal.append([{"type": "noted", "id": "x", "run": "run", "at": 0.0, "attempt": 0, "step": 60, "rule": "a",
                         "member": None, "from": "green", "to": "green", "shown": True, "why": ""}])  # fmt: skip
        journal.close()
        assert "x" in Journal(cut).ledger("run").seen


def _whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def test_lines_that_are_not_ours_are_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "j"
    acted = filled(path)
    path.write_bytes(
        b'\xff\xfe\x00\n[1]\n{"type": "intent"}\n{"type": "done", "run": [], "id": 1}\n' + path.read_bytes()
    )
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        journal = Journal(path)
    assert set(acted) < journal.ledger("run").seen
    assert [r.getMessage() for r in caplog.records] == [f"vitals: 4 damaged lines in {path} were passed over"]


def test_a_full_disk_is_said_once_and_what_was_decided_is_written_when_it_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "j"
    journal, port = Journal(path), Memory()
    acts = dispatcher(POLICY, port, journal=journal)
    real, calls = os.write, iter(range(100))

    def full(fd: int, data: bytes) -> int:
        """Room for twenty bytes, and then for none."""
        if next(calls) % 2 == 0:
            return real(fd, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with caplog.at_level(logging.WARNING, "vitalsdsl"), monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        for rule in "ab":
            acts.take([change(rule, 10, R)])
            acts.flush()
    assert len(port.requests) == 1 and len(port.alerts) == 2
    (said,) = (r.getMessage() for r in caplog.records)
    assert said == (
        f"vitals: the journals in {tmp_path.parent} cannot be written (No space left on device); going on in memory: "
        "after a restart, what is decided now may be decided again"
    )
    assert journal.is_behind
    with caplog.at_level(logging.WARNING, "vitalsdsl"):
        journal.refresh()
    assert not journal.is_behind
    assert [r.getMessage() for r in caplog.records][1:] == [
        f"vitals: the journals in {tmp_path.parent} are written again"
    ]
    acts.take([change("c", 20, R)])
    acts.close(1.0)
    again = Journal(path)
    assert again.ledger("run").seen == journal.ledger("run").seen
    assert len(again.ledger("run").used["rollback"]) == 2


def test_a_failing_fsync_never_reaches_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal, port = Journal(tmp_path / "j"), Memory()

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    acts = dispatcher(POLICY, port, journal=journal)
    acts.take([change("a", 10, R)])
    acts.take([change("b", 20, R)])
    assert acts.close(1.0) and len(port.requests) == 2
    assert len(caplog.records) == 1


@pytest.mark.parametrize("place", ["a folder", "below a file", "not writable"])
def test_a_place_that_cannot_be_written_leaves_a_journal_in_memory(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "place"
    if place == "a folder":
        path.mkdir()
    elif place == "below a file":
        path.write_text("")
        path = path / "j"
    else:
        real = os.open

        def readonly(path: Any, flags: int, *rest: Any) -> int:
            if flags & os.O_RDWR:
                raise OSError(errno.EROFS, "Read-only file system")
            return real(path, flags, *rest)

        monkeypatch.setattr(os, "open", readonly)
    port = Memory()
    acts = dispatcher(POLICY, port, journal=Journal(path))
    first, second = change("a", 10, R), change("a", 20, O, R)
    assert [d.acts for d in acts.take([first]) + acts.take([first]) + acts.take([second])] == [True, False, False]
    assert acts.close(1.0) and len(port.requests) == 1
    assert len(caplog.records) == 1 and "cannot be written" in caplog.text


def test_of_two_processes_on_one_journal_the_first_acts(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ports = Memory("one"), Memory("two")
    watchers = [dispatcher(POLICY, port, journal=Journal(path)) for port in ports]
    t = change("a", 10, R)
    for watcher in watchers:
        watcher.take([t])
    watchers[0].flush()
    watchers[1].flush()
    assert [len(port.requests) for port in ports] == [1, 0]
    (decision,) = watchers[1].take([change("b", 20, R)])
    assert decision.acts
    watchers[1].flush()
    (late,) = watchers[0].take([change("c", 30, R)])
    watchers[0].flush()
    assert late.acts and [len(port.requests) for port in ports] == [2, 1]
    (spent,) = watchers[0].take([change("c", 40, R, O)])
    assert spent.text.endswith("is used up")


def test_silences_end_by_time_or_by_hand_and_outlast_restarts(tmp_path: Path) -> None:
    path = tmp_path / "j"
    acts = dispatcher(POLICY, journal=Journal(path))
    acts.silence("a", "known")
    acts.silence("b*", "moving house", until=START + 60)
    acts.close(1.0)
    again = dispatcher(POLICY, journal=Journal(path))
    a, b = again.take([change("a", 10, R), change("b", 10, R)])
    assert (a.text, b.text) == ("nothing: a is silenced: known", "nothing: b is silenced: moving house")
    again.silence("a", "", until=START)
    again.close(1.0)
    later = dispatcher(POLICY, journal=Journal(path), clock=lambda: START + 61)
    assert all(d.acts for d in later.take([change("a", 20, O, Y), change("b", 21, O, Y)]))


def test_a_few_letters_of_a_run_s_id_will_do_if_no_other_begins_so(tmp_path: Path) -> None:
    for run in ("0e635dcc11", "0e63aaaa22", "b"):
        path = journal_of(tmp_path, run, "p")
        path.parent.mkdir(parents=True)
        path.touch()
    assert journals_of("0e635", tmp_path) == [journal_of(tmp_path, "0e635dcc11", "p")]
    assert journals_of("b", tmp_path) == [journal_of(tmp_path, "b", "p")]
    for unclear in ("0e63", "0e6", "c"):
        with pytest.raises(UsageError, match="nothing is known of run"):
            journals_of(unclear, tmp_path)


def test_a_run_goes_by_the_name_that_people_gave_it_if_no_other_has_it(tmp_path: Path) -> None:
    named = {"0e635dcc11": "small-lm", "77aa": "twin", "88bb": "twin", "99cc": ""}
    for run, title in named.items():
        journal = Journal(journal_of(tmp_path, run, "p"))
        acts = Dispatcher(policy(POLICY), [Memory()], journal, RunInfo(run, title=title))
        acts.take([change("a", 3, Y)])
        assert acts.close(10.0)
    assert journals_of("small-lm", tmp_path) == [journal_of(tmp_path, "0e635dcc11", "p")]
    assert Journal(*journals_of("small-lm", tmp_path)).known_as("small-lm") == "0e635dcc11"
    with pytest.raises(UsageError, match="2 runs are called `twin`: give the id of one, 77aa, 88bb"):
        journals_of("twin", tmp_path)
    with pytest.raises(
        UsageError, match="or by its name once a rule of it has changed its level; did you mean small-lm"
    ):
        journals_of("smal-lm", tmp_path)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")
def test_journals_of_many_runs_hold_no_file_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    journals = [Journal(tmp_path / f"{number}" / "j") for number in range(50)]
    for journal in journals:
        journal.append([silence("run", "a", "known", None, 0.0)])
        journal.refresh()
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 5
    assert all(Journal(journal.path).ledger("run").silences for journal in journals)
