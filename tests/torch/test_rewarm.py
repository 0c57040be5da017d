"""After a rollback the learning rate can grow to what it is to be, by the history and the number of the step alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from guarded_ranks import Company, rates
from training_loops import BATCHES, RED, Loop
from vitalsdsl_torch import Guard

from vitalsdsl.ground.errors import UsageError

BAD = range(105, 110)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


def used(loop: Loop, total: int, stop_at: int = BATCHES) -> list[tuple[int, float]]:
    """The number of each update, and the rate that it took. At an update the process may end, unseen."""
    found: list[tuple[int, float]] = []
    loop.optimizer.register_step_pre_hook(lambda o, *_: found.append((loop.guard.done + 1, o.param_groups[0]["lr"])))
    for step in loop.guard.steps(total):
        batch = next(loop.data)
        loop.model(batch).backward()
        loop.optimizer.step()
        loop.scheduler.step()
        loop.optimizer.zero_grad()
        if step == stop_at and loop.guard.attempt:
            loop.guard._lock.close()
            break
        loop.guard.step({"loss": 10.0 if batch in loop.bad else 1.0})
    return found


def schedule(update: int) -> float:
    """As `Loop` has it."""
    return 0.01 / (1 + (update - 1) / 100)


def expected(updates: range, rewarm: int = 10) -> list[tuple[int, float]]:
    """From the rollback to step 80 on, with nine tenths of the rate."""
    return [(u, pytest.approx(schedule(u) * 0.9 * min(1.0, (u - 80) / rewarm))) for u in updates]


def test_the_rate_grows_in_equal_steps_on_top_of_the_schedule(tmp_path: Path) -> None:
    found = used(Loop(tmp_path / "run", bad=BAD, rewarm=10), 120)
    assert found[:108] == [(u, pytest.approx(schedule(u))) for u in range(1, 109)]
    assert found[108:] == expected(range(81, 121))


@pytest.mark.parametrize("at, again_from", [(85, 81), (95, 81), (103, 101)])
def test_a_restart_in_the_middle_goes_on_as_if_there_had_been_none(tmp_path: Path, at: int, again_from: int) -> None:
    used(Loop(tmp_path / "run", bad=BAD, rewarm=30), 120, stop_at=at)
    again = Loop(tmp_path / "run", bad=BAD, rewarm=30)
    assert again.guard.metrics["vitals/lr_factor"] == pytest.approx(0.9 * (again_from - 80) / 30)
    assert used(again, 120) == expected(range(again_from, 121), rewarm=30)


def test_where_a_restart_has_to_go_further_back_it_grows_from_there(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run", bad=BAD, rewarm=10, keep=9)
    used(loop, 120, stop_at=85)
    (loop.folder / "checkpoints" / "step-00000080-0" / "model.pt").write_bytes(b"")
    found = used(Loop(tmp_path / "run", bad=BAD, rewarm=10), 75)
    assert found == [(u, pytest.approx(schedule(u) * 0.9 * min(1.0, (u - 60) / 10))) for u in range(61, 76)]


def test_it_is_the_same_on_all_ranks(tmp_path: Path) -> None:
    company = Company(tmp_path / "out", 2)
    try:
        found = company.play(rates, folder=str(tmp_path / "run"), kind="ddp", total=130, bad=BAD, rewarm=10)
    finally:
        company.dismiss()
    one, other = found.results
    assert one == other and one[108:] == [pytest.approx(0.01 * 0.9 * min(1.0, n / 10)) for n in range(1, 51)]


def test_less_than_none_is_refused(tmp_path: Path) -> None:
    model: Any = torch.nn.Linear(1, 1)
    with pytest.raises(UsageError, match="`rewarm` must be 0 or more, a whole number, not -1"):
        Guard(RED, tmp_path / "run", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), rewarm=-1)
