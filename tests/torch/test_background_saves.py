"""Checkpoints that are written while training goes on: the same bytes, one at a time, waited for where it matters."""

from __future__ import annotations

import errno
import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guarded_ranks import Company, plain
from training_loops import Loop, account, channel, request, same
from vitalsdsl_torch import Paused, checkpoint, shards
from vitalsdsl_torch.member import Member


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Nothing is written before this is set."""
    event, save = threading.Event(), checkpoint.save

    def late(*arguments: Any) -> Any:
        assert event.wait(60)
        return save(*arguments)

    monkeypatch.setattr(checkpoint, "save", late)
    return event


def contents(folder: Path) -> dict[str, dict[str, str]]:
    """What lies in the checkpoints, by its hash. No two are alike of torch's own list of tensors, which names the save, and
    of what the rules know, where the time stands."""
    manifests = {
        path.parent.name: json.loads(path.read_text("utf-8")) for path in folder.glob("checkpoints/*/manifest.json")
    }
    return {
        name: {
            file: entry["sha256"]
            for file, entry in said["files"].items()
            if file not in ("shards/.metadata", "rules.pt")
        }
        for name, said in manifests.items()
    }


def test_it_holds_the_step_at_which_it_was_begun_bit_for_bit(tmp_path: Path, gate: threading.Event) -> None:
    loop = Loop(tmp_path / "late", background=True, keep=9)

    def before(step: int) -> None:
        if step == 30:
            assert loop.checkpoints() == []  # ten steps later it is still being written
            gate.set()

    loop.train(100, before)
    whole = Loop(tmp_path / "whole", keep=9).train(100)
    assert same(loop.tensors(), whole.tensors())
    assert list(contents(loop.folder)) and contents(loop.folder) == contents(whole.folder)


def test_a_pause_waits_for_it(tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Member.settle
    monkeypatch.setattr(Member, "settle", lambda member: (gate.set(), settle(member))[1])
    loop = Loop(tmp_path / "run", background=True, control=tmp_path / "control", poll=0.0)
    seen: list[list[str]] = []

    def before(step: int) -> None:
        if step == 23:
            seen.append(loop.checkpoints())
            channel(tmp_path / "control").ask(request("pause"))

    with pytest.raises(Paused):
        loop.train(60, before)
    assert seen == [[]] and loop.checkpoints() == ["step-00000020-0", "step-00000023-0"]


def test_a_rollback_comes_to_the_same_as_without(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "late", bad=range(105, 110), background=True).train(150)
    whole = Loop(tmp_path / "whole", bad=range(105, 110)).train(150)
    assert same(loop.tensors(), whole.tensors()) and loop.guard.skipped == whole.guard.skipped == [(80, 128)]
    account(loop)


def test_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save, left = checkpoint.save, [OSError(errno.ENOSPC, "No space left on device")]

    def full(*arguments: Any) -> Any:
        if left:
            raise left.pop()
        return save(*arguments)

    monkeypatch.setattr(checkpoint, "save", full)
    loop = Loop(tmp_path / "run", background=True).train(70)
    assert [r.getMessage() for r in caplog.records if "no checkpoint" in r.getMessage()] == [
        "vitals: no checkpoint after step 20: No space left on device"
    ]
    assert loop.checkpoints() == ["step-00000040-0", "step-00000060-0", "step-00000070-0"]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Company]:
    company = Company(tmp_path / "two", 2)
    yield company
    company.dismiss()


def test_several_ranks_write_the_same(tmp_path: Path, two: Company) -> None:
    play = {"kind": "fsdp", "total": 130, "bad": range(105, 110), "keep": 9}
    for name, background in (("late", True), ("whole", False)):
        found = two.play(plain, folder=str(tmp_path / name), background=background, **play)
        assert found.codes == [0, 0] and found.results[0]["skipped"] == [(80, 128)]
    assert contents(tmp_path / "late") == contents(tmp_path / "whole") != {}


def test_nothing_in_the_list_of_tensors_is_run(tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Path.exists))
    with pytest.raises(pickle.UnpicklingError, match="is not part of a checkpoint"):
        shards._Reader(tmp_path).read_metadata()
