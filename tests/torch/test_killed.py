"""kill -9 while saving, while rolling back, at any moment: the run goes on from a valid state and its account holds."""

from __future__ import annotations

import multiprocessing
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from killed_training import check, train

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by a signal")


@pytest.fixture(scope="module")
def processes() -> Any:
    """Processes that have torch loaded when they begin: loading it takes seconds, and they are many."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch._dynamo", "vitalsdsl_torch.guard", "vitalsdsl.language.parser"])
    return context


def run(processes: Any, folder: Path, kill_at: int | None = None, kill_after: float | None = None) -> bool:
    """A process of its own; whether it was killed."""
    process = processes.Process(
        target=train, args=(str(folder / "run"), str(folder / "home"), kill_at, 0.004 if kill_after else 0.0)
    )
    process.start()
    process.join(60 if kill_after is None else kill_after)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode in (0, -9)
    return bool(process.exitcode == -9)


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_steps_of_saving_and_going_back(processes: Any, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    kills = sum(run(processes, tmp_path, kill_at=draw.randrange(1, 60)) for _ in range(8))
    run(processes, tmp_path)
    assert kills >= 6
    check(tmp_path / "run")


def test_killed_at_random_moments(processes: Any, tmp_path: Path) -> None:
    draw = random.Random(10)
    kills = sum(run(processes, tmp_path, kill_after=draw.uniform(0.1, 0.9)) for _ in range(8))
    run(processes, tmp_path)
    assert kills >= 4
    check(tmp_path / "run")
