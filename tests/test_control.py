"""The control channel as a folder: each request once and whole, whoever puts it there and whatever lies beside it."""

from __future__ import annotations

import json
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest

from vitalsdsl.acting.control import ControlFolder, control_of
from vitalsdsl.acting.tracker import Request
from vitalsdsl.ground.errors import StateError, UsageError
from vitalsdsl.language.rules import Level

FORK = multiprocessing.get_context("fork")


def request(id_: str = "id-1", **changes: Any) -> Request:
    return Request(**({
        "id": id_, "run": "a", "segment": 0, "seq": 1, "action": "pause", "level": Level.ORANGE, "rule": "hot",
        "member": None, "trip_step": 7, "onset": 5, "issued_at": 1000.0, "expires_at": 1600.0,
    } | changes))  # fmt: skip


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _put(folder: Path, name: str, start: Any) -> None:
    channel = ControlFolder(folder)
    start.wait()
    for number in range(50):
        channel.request(request(f"id-{number}", reason=name))


def test_two_processes_that_put_one_request_at_the_same_time_put_it_once(tmp_path: Path) -> None:
    start = FORK.Barrier(4)
    processes = [FORK.Process(target=_put, args=(tmp_path, f"p{n}", start)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    asked = list(ControlFolder(tmp_path).asked())
    assert sorted(a.request["id"] for a in asked) == sorted(f"id-{n}" for n in range(50))
    assert names(tmp_path / "requests") == sorted(f"id-{n}.json" for n in range(50))


def test_the_first_stays_as_it_is(tmp_path: Path) -> None:
    channel = ControlFolder(tmp_path)
    channel.request(request(reason="first"))
    channel.request(request(reason="second"))
    assert [a.request["reason"] for a in channel.asked()] == ["first"]


def test_a_newer_answer_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    channel = ControlFolder(tmp_path)
    channel.request(request())
    states = [next(iter(channel.asked())).state]
    for state in ("received", "accepted", "done"):
        channel.answer("id-1", {"id": "id-1", "state": state})
        states.append(next(iter(channel.asked())).state)
    assert states == ["open", "received", "accepted", "done"]


def test_who_reads_meanwhile_sees_whole_requests_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    channel, over, seen = ControlFolder(tmp_path), threading.Event(), []

    def read() -> None:
        while not over.is_set():
            seen.append([len(a.request["reason"]) for a in channel.asked()])

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        channel.request(request(f"id-{number}", reason="x" * 100_000))
    over.set()
    reader.join()
    assert {length for lengths in seen for length in lengths} <= {100_000}
    assert not caplog.records


def test_on_a_file_system_without_hard_links_it_is_put_once_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("vitalsdsl.acting.control.os.link", no_links)
    channel = ControlFolder(tmp_path)
    channel.request(request(reason="first"))
    channel.request(request(reason="second"))
    assert [a.request["reason"] for a in channel.asked()] == ["first"]
    assert names(tmp_path / "requests") == ["id-1.json"]


BROKEN = {
    "half": b'{"id": "x", "act', "empty": b"", "list": b"[]", "deep": b"[" * 100_000, "bytes": b"\xff\xfe",
    "no-action": b'{"id": "x"}', "odd-id": b'{"id": 3, "action": "pause"}', "odd-action": b'{"id": "x", "action": {}}',
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_file_is_passed_over_said_once_and_keeps_nobody_from_being_heard(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    channel = ControlFolder(tmp_path)
    channel.request(request())
    (tmp_path / "requests" / "bad\x1b.json").write_bytes(BROKEN[name])
    (tmp_path / "requests" / ".0.draft").write_bytes(b"{")
    for _ in range(2):
        assert [a.request["id"] for a in channel.asked()] == ["id-1"]
    (record,) = caplog.records
    assert "bad\\x1b.json is passed over: " in record.getMessage() and "\x1b" not in record.getMessage()
    channel.answer("id-1", {"state": "done"})
    (tmp_path / "answers" / "id-1.json").write_bytes(BROKEN[name])
    assert [a.state for a in channel.asked()] == ["unreadable"]


def test_odd_times_and_numbers_harm_no_order(tmp_path: Path) -> None:
    folder = tmp_path / "requests"
    folder.mkdir(parents=True)
    times = {"a": "soon", "b": 2.0, "c": None, "d": 10**400, "e": [], "f": 1.0}
    for name, at in times.items():
        (folder / f"{name}.json").write_text(json.dumps({"id": name, "action": "pause", "issued_at": at}))
    (folder / "g.json").write_text('{"id": "g", "action": "pause", "issued_at": NaN, "evidence": Infinity}')
    asked = [a.request for a in ControlFolder(tmp_path).asked()]
    assert [a["id"] for a in asked] == ["a", "c", "e", "g", "f", "b", "d"]
    assert asked[3]["evidence"] == "Infinity"


@pytest.mark.parametrize("name", ["../out", "/etc/x", "..", ".", "", "a\x00b", "x" * 5000, "ü" * 300, "\udcff", "a\nb"])
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    channel = control_of(name, root)
    channel.request(request(name, reason="\udcff"))
    channel.answer(name, {"state": "done"})
    assert [(a.request["id"], a.state) for a in channel.asked()] == [(name, "done")]
    assert names(tmp_path) == ["root"]
    assert all(root in path.resolve().parents for path in channel.folder.rglob("*"))
    assert channel.folder.resolve().parent == root


def test_long_names_that_differ_at_their_end_are_two(tmp_path: Path) -> None:
    assert control_of("x" * 500 + "a", tmp_path).folder != control_of("x" * 500 + "b", tmp_path).folder


def test_a_folder_that_cannot_be_written_is_one_error_and_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="file/requests cannot be written: Not a directory"):
        ControlFolder(tmp_path / "file").request(request())

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vitalsdsl.acting.control.os.fsync", full)
    with pytest.raises(StateError, match="requests cannot be written: No space left on device"):
        ControlFolder(tmp_path / "c").request(request())
    assert names(tmp_path / "c" / "requests") == []


def test_the_folder_must_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VITALS_CONTROL", raising=False)
    with pytest.raises(UsageError, match="--control DIR, or VITALS_CONTROL"):
        control_of("a")
    monkeypatch.setenv("VITALS_CONTROL", str(tmp_path))
    assert control_of("a").folder == tmp_path / "a"


def test_what_the_training_has_asked_by_itself_is_told_apart(tmp_path: Path) -> None:
    channel = ControlFolder(tmp_path)
    channel.request(request("b"))
    channel.answer("b", {"id": "b", "state": "done"})
    channel.answer("own", {"id": "own", "state": "done", "action": "pause", "rule": "hot", "trip_step": 7, "at": 5.0})
    channel.answer("gone", {"id": "gone", "state": "received"})
    (own,) = channel.own()
    assert (own.request, own.state) == (
        {"id": "own", "issued_at": 5.0, "action": "pause", "rule": "hot", "trip_step": 7}, "done",
    )  # fmt: skip
    assert [asked.request["id"] for asked in channel.asked()] == ["b"]
