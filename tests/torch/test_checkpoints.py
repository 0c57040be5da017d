"""Checkpoints: whole or not at all, proved before use, kept by what is known of their health."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from training_loops import ORANGE, Counting, Loop, Shelf, account, same
from vitalsdsl_torch import Batches, Guard, checkpoint
from vitalsdsl_torch.contents import Contents

from vitalsdsl.ground.errors import StateError, UsageError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


def test_a_training_that_is_started_again_comes_to_the_same_weights_as_one_that_never_ended(tmp_path: Path) -> None:
    whole = Loop(tmp_path / "whole").train(100)
    Loop(tmp_path / "halves").train(40)
    second = Loop(tmp_path / "halves", seed=99).train(100)
    assert same(whole.tensors(), second.tensors())
    account(second)
    assert second.guard.attempt == 0


def test_what_was_trained_after_the_newest_checkpoint_is_trained_again_as_a_new_attempt(tmp_path: Path) -> None:
    whole = Loop(tmp_path / "whole").train(60)
    first = Loop(tmp_path / "cut")
    steps = first.guard.steps(60)
    for _ in range(50):  # as if the process had ended in step 51: nothing is closed or saved
        next(steps)
        first.model(next(first.data)).backward()
        first.optimizer.step()
        first.scheduler.step()
        first.optimizer.zero_grad()
        first.guard.step({"loss": 1.0})
    first.guard._lock.close()
    second = Loop(tmp_path / "cut", seed=1)
    assert (second.guard.done, second.data.position, second.guard.attempt) == (40, 40, 1)
    assert same(whole.tensors(), second.train(60).tensors())
    account(second)


def test_the_newest_of_an_untroubled_run_are_kept_and_all_milestones(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", milestone=60).train(200)
    # 20, 40, 80, 100, 140, 160, 200 are ordinary; three of them stay.
    assert [int(name.split("-")[1]) for name in loop.checkpoints()] == [60, 120, 140, 160, 180, 200]
    assert set(loop.marks().values()) == {"healthy"}


def test_trouble_makes_the_checkpoints_within_its_margin_suspect(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", ORANGE, range(105, 125), allow=()).train(200)
    # The onset is at step 106, green again at 128: 100 < 106 <= 110, and 120 lies inside.
    states = loop.marks()
    assert states["step-00000080-0"] == states["step-00000140-0"] == "healthy"
    assert states["step-00000100-0"] == states["step-00000120-0"] == "suspect"


def test_the_last_healthy_one_stays_however_many_suspect_ones_come(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", ORANGE, range(105, 900), allow=()).train(400)
    kept = loop.checkpoints()
    assert "step-00000080-0" in kept and "step-00000400-0" in kept
    assert len(kept) <= 2 * 3 + 1


def test_a_pinned_one_stays(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run")
    loop.train(200, before=lambda step: loop.guard.pin("step-00000020-0") if step == 30 else None)
    assert "step-00000020-0" in loop.checkpoints()
    with pytest.raises(UsageError, match="no checkpoint"):
        loop.guard.pin("step-00000021-0")


@pytest.mark.parametrize("name", ["model.pt", "optimizer.pt", "rest.pt", "rules.pt", "manifest.json", "COMPLETE"])
def test_one_changed_byte_anywhere_and_the_one_before_is_used(tmp_path: Path, name: str) -> None:
    Loop(tmp_path / "run").train(60)
    damaged = tmp_path / "run" / "checkpoints" / "step-00000060-0" / name
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(bytes(data))
    loop = Loop(tmp_path / "run")
    assert (loop.guard.done, loop.data.position) == (40, 40)
    assert loop.marks()["step-00000060-0"] == "corrupt"
    account(loop.train(80))


def test_one_that_was_not_finished_counts_for_nothing(tmp_path: Path) -> None:
    Loop(tmp_path / "run").train(60)
    folder = tmp_path / "run" / "checkpoints"
    (folder / "step-00000060-0" / "COMPLETE").unlink()
    shutil.copytree(folder / "step-00000040-0", folder / ".writing-step-00000080-0")
    loop = Loop(tmp_path / "run")
    assert loop.guard.done == 40
    assert loop.checkpoints() == ["step-00000020-0", "step-00000040-0"]


def test_somebody_else_s_checkpoints_in_the_folder_stay(tmp_path: Path) -> None:
    others = [tmp_path / "run" / "checkpoints" / name / "model.pt" for name in ("step-1000", "step-5-0", ".writing-x")]
    for path in others:
        path.parent.mkdir(parents=True)
        path.write_text("a week of training")
    loop = Loop(tmp_path / "run", keep=1)
    account(loop.train(100))
    assert all(path.read_text() == "a week of training" for path in others)
    loop.guard.close()
    assert Loop(tmp_path / "run").guard.done == 100


def test_names_that_a_checkpointed_block_has_only_in_its_state_are_known(tmp_path: Path) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    def made(seed: int) -> tuple[Any, Guard]:
        torch.manual_seed(seed)
        model = torch.nn.Sequential(checkpoint_wrapper(torch.nn.Linear(2, 2)), torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, Guard("pack:core", tmp_path / "run", model=model, optimizer=optimizer, data=Shelf(), every=5)

    model, guard = made(0)
    for _ in guard.steps(10):
        guard.step({"loss": 1.0})
    again, second = made(1)
    assert second.done == 10 and same(list(again.parameters()), list(model.parameters()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
def test_numbers_that_float32_cannot_hold_are_finite_all_the_same(tmp_path: Path, dtype: Any) -> None:
    model = torch.nn.ParameterList(
        [torch.nn.Parameter(torch.full((2,), 1e30, dtype=dtype).pow(1 + dtype.is_floating_point))]
    )
    contents = Contents(model, [torch.optim.SGD(model.parameters(), lr=0.1)], {})
    assert contents.unsound(contents.capture()) == ""
    with torch.no_grad():
        model[0].mul_(torch.tensor(float("nan"), dtype=dtype) if dtype.is_floating_point else complex(1, float("inf")))
    assert contents.unsound(contents.capture()) == "`0` is not finite"


def test_parameters_that_are_not_finite_are_not_gone_on_with(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run")

    def spoil(step: int) -> None:
        if step == 55:
            torch.nn.init.constant_(loop.model.layer.weight, float("nan"))

    loop.train(60, before=spoil)
    assert Loop(tmp_path / "run").guard.done == 40


def test_where_every_checkpoint_is_damaged_nothing_is_trained_over_them(tmp_path: Path) -> None:
    Loop(tmp_path / "run").train(60)
    for path in (tmp_path / "run" / "checkpoints").glob("*/model.pt"):
        path.write_bytes(b"")
    with pytest.raises(StateError, match="none of the 3 checkpoints can be used"):
        Loop(tmp_path / "run")


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    Loop(tmp_path / "run").train(20)
    model = torch.nn.Linear(3, 1)
    with pytest.raises(UsageError, match="not one of this training: the model"):
        Guard("pack:core", tmp_path / "run", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_full_disk_costs_checkpoints_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def full(part: Any, path: Any) -> None:
        if full.on:  # type: ignore[attr-defined]
            raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")
        real(part, path)

    real = torch.save
    full.on = False  # type: ignore[attr-defined]
    monkeypatch.setattr(torch, "save", full)
    loop = Loop(tmp_path / "run")
    loop.train(100, before=lambda step: setattr(full, "on", 30 < step < 70))
    assert loop.checkpoints() == ["step-00000020-0", "step-00000080-0", "step-00000100-0"]
    assert "no checkpoint after step 40: PytorchStreamWriter failed" in caplog.text
    account(loop)


def test_a_history_that_cannot_be_written_is_said_once_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    loop = Loop(tmp_path / "run", bad=range(105, 110))

    def full(record: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(loop.guard._training.history, "append", full)
    loop.train(150)
    assert loop.guard.attempt == 0 and loop.seen[:150] == [1] * 150  # no rollback that could not be written down
    assert caplog.text.count("history.jsonl cannot be written (No space left on device)") == 1


def test_a_line_of_the_history_that_was_cut_off_is_passed_over(tmp_path: Path, caplog: Any) -> None:
    Loop(tmp_path / "run", bad=range(105, 110)).train(150)
    path = tmp_path / "run" / "history.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type": "turn", "attempt": 9, "st')
    loop = Loop(tmp_path / "run", bad=range(105, 110))
    assert loop.guard.attempt == 1 and "a damaged line of" in caplog.text
    loop.train(180)
    assert json.loads(path.read_bytes().splitlines()[-1])  # not glued to what was cut off


def test_python_numpy_and_torch_draw_on_as_if_never_interrupted(tmp_path: Path) -> None:
    import random

    import numpy as np

    Loop(tmp_path / "run").train(20)
    expected = random.random(), float(np.random.random()), float(torch.rand(()))
    random.seed(5), np.random.seed(5)
    Loop(tmp_path / "run", seed=5)
    assert (random.random(), float(np.random.random()), float(torch.rand(()))) == expected


def test_averaged_weights_and_a_scaler_come_back_with_the_model(tmp_path: Path) -> None:
    def made() -> tuple[Any, ...]:
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        averaged = torch.optim.swa_utils.AveragedModel(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        guard = Guard("pack:core", tmp_path / "run", model=model, optimizer=optimizer, scaler=scaler,
                      extra={"ema": averaged}, data=Batches(range(50)), every=5, run="small")  # fmt: skip
        return model, averaged, scaler, optimizer, guard

    model, averaged, scaler, optimizer, guard = made()
    for _ in guard.steps(10):
        scaler.scale(model(torch.randn(4, 2)).pow(2).mean()).backward()
        scaler.step(optimizer)
        scaler.update(new_scale=512.0)
        optimizer.zero_grad()
        averaged.update_parameters(model)
        guard.step({"train/loss": 1.0})
    _, averaged_again, scaler_again, _, again = made()
    assert same(list(averaged.state_dict().values()), list(averaged_again.state_dict().values()))
    assert scaler_again.get_scale() == 512.0 and again.done == 10


def test_a_state_that_could_not_be_read_without_running_it_is_refused_at_the_start(tmp_path: Path) -> None:
    class Odd:
        def state_dict(self) -> Any:
            return {"path": Path("x")}

        def load_state_dict(self, state: Any) -> None: ...

    with pytest.raises(UsageError, match="`odd` holds more than tensors and plain data"):
        Loop(tmp_path / "run", extra={"odd": Odd()})


def test_a_second_process_in_the_folder_is_refused(tmp_path: Path) -> None:
    first = Loop(tmp_path / "run")
    with pytest.raises(UsageError, match="another guard of this process trains in"):
        Loop(tmp_path / "run")
    first.guard.close()
    code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    words = [sys.executable, "-c", code, str(tmp_path / "run" / "lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(UsageError, match="another process trains in"):
            Loop(tmp_path / "run")
        other.communicate(b"\n")
    Loop(tmp_path / "run").guard.close()


def test_an_optimizer_of_another_kind_is_said_to_be_one(tmp_path: Path) -> None:
    Loop(tmp_path / "run").train(20)
    model = Counting()
    other = torch.optim.SGD([{"params": [p]} for p in model.parameters()], lr=0.1)
    scheduler = torch.optim.lr_scheduler.ConstantLR(other)
    with pytest.raises(UsageError, match=r"the groups of SGD hold \[1, 1\] parameters, and in the checkpoint \[2\]"):
        Guard(
            "pack:core", tmp_path / "run", model=model, optimizer=other, scheduler=scheduler, data=Shelf(), run="small"
        )
    alike = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match="it is of AdamW, and the training has SGD"):
        Guard(
            "pack:core", tmp_path / "run", model=model, optimizer=alike, scheduler=scheduler, data=Shelf(), run="small"
        )


def test_one_of_several_processes_that_do_not_know_of_each_other_yet_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UsageError, match="one of 4"):
        Loop(tmp_path / "run")


def test_a_folder_without_a_mark_of_completion_is_found_by_nobody(tmp_path: Path) -> None:
    about = {"step": 5, "attempt": 0, "position": 5, "born": "probation"}
    checkpoint.save(tmp_path, about, {"model": {"w": torch.ones(2)}})
    (one,) = checkpoint.found(tmp_path)
    assert one.damage() == "" and (one.step, one.position) == (5, 5)
    (one.folder / "COMPLETE").unlink()
    assert checkpoint.found(tmp_path) == []
