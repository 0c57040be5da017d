"""Where a training is in its data: the order in which batches come, over restarts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from training_loops import RED, policy
from vitalsdsl_torch import Batches, Guard

ROWS, BATCH = 40, 4


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))


class Shuffled:
    """Batches in an order that Python's own generator makes anew in each epoch."""

    def __iter__(self) -> Iterator[Any]:
        yield from torch.tensor(random.sample(range(ROWS), ROWS)).float()[:, None].split(BATCH)


def loader(kind: str) -> Any:
    if kind == "python":
        return Shuffled()
    generator = torch.Generator().manual_seed(5) if kind == "its own generator" else None
    rows = torch.arange(float(ROWS))[:, None]
    return torch.utils.data.DataLoader(rows, BATCH, shuffle=True, generator=generator)


def drawn(folder: Path, kind: str, until: int) -> list[int]:
    """What a training draws in one process, whose own drop-out uses the same random generator as the loader."""
    torch.manual_seed(0), random.seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = Batches(loader(kind))
    guard = Guard(policy(RED), folder, model=model, optimizer=optimizer, data=data, every=1000)
    found: list[int] = []
    for _ in guard.steps(until):
        batch = next(data)
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        found += map(int, batch.flatten())
        guard.step({"loss": 1.0})
    return found


@pytest.mark.parametrize("kind", ["torch's generator", "its own generator", "python"])
def test_a_loader_that_shuffles_gives_the_rest_of_its_epoch_after_a_restart(tmp_path: Path, kind: str) -> None:
    epoch = ROWS // BATCH
    whole = drawn(tmp_path / "whole", kind, 3 * epoch)
    parts = drawn(tmp_path / "parts", kind, 3 * epoch // 2) + drawn(tmp_path / "parts", kind, 3 * epoch)
    assert parts == whole and len(set(map(tuple, torch.tensor(whole).view(3, ROWS).tolist()))) == 3
    assert sorted(parts[ROWS : 2 * ROWS]) == list(range(ROWS))


def test_a_step_that_the_guard_is_not_told_of_comes_again_and_that_is_said_once(tmp_path: Path, caplog: Any) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = Guard(policy(RED), tmp_path / "run", model=model, optimizer=optimizer)
    left_out = [2, 2, 4]  # where the model fails, say, and the loop goes on to the next batch
    came = []
    for step in guard.steps(5):
        came.append(step)
        if left_out[:1] == [step]:
            del left_out[0]
            continue
        guard.step({"loss": 1.0})
    assert came == [1, 2, 2, 2, 3, 4, 4, 5]
    assert caplog.text.count("`step` was not called for step 2, which comes again") == 1
    assert caplog.text.count("comes again") == 1
