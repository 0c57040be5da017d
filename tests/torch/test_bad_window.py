"""Why the data is kept and the window passed over: a small language model, thirty bad batches, and what each answer costs."""

from __future__ import annotations

import copy
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from vitalsdsl_torch import Guard

from vitalsdsl.policy import load

VOCABULARY, CONTEXT, BATCH = 32, 16, 32
BAD, TRIP_AT, SAVED_AT, AFTER = range(150, 180), 160, 125, 100
POLICY = "rule broken { when loss > 1.5 * calm for 10 steps -> red do rollback(lr: 100%) }"


class Sentences:
    """A made-up language, each batch by its number; uniform noise within the bad window."""

    def __init__(self, seed: int) -> None:
        self.position = 0
        self._seed = seed

    def skip_to(self, position: int) -> None:
        self.position = position

    def __next__(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self._seed * 100_000 + self.position)
        words = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), generator=generator)
        if self.position not in BAD:
            jumps = torch.randint(2, (BATCH, CONTEXT + 1), generator=generator)
            for at in range(CONTEXT):
                words[:, at + 1] = (words[:, at] * 5 + 7 + jumps[:, at]) % VOCABULARY
        self.position += 1
        return words


def train(answer: str, seed: int, folder: Path) -> int:
    """How many steps from the trip on are bad: with a loss above 1.5 times what it was in calm water."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Embedding(VOCABULARY, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, VOCABULARY))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = Sentences(seed)
    guard = Guard(
        load("bad", text=POLICY), folder, model=model, optimizer=optimizer, data=data, run=folder.name,
        allow=("rollback",) if answer.startswith("data kept") else (), skip=20 if answer == "data kept, window passed" else 0,
        every=SAVED_AT, probation=20, margin=20,
    )  # fmt: skip
    losses: list[float] = []
    known: dict[str, float] = {}
    saved: Any = None
    for _ in guard.steps(10_000):
        batch = next(data)
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if len(losses) == BAD.start:
            known["calm"] = statistics.median(losses[-50:])
        guard.step({"loss": loss.item(), **known})
        if len(losses) == SAVED_AT:
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        if len(losses) == TRIP_AT:
            assert guard.attempt == answer.startswith("data kept")
            if answer == "data rewound":  # by hand, since a guard does no such thing
                model.load_state_dict(saved[0])
                optimizer.load_state_dict(saved[1])
                data.position = SAVED_AT
        if len(losses) == TRIP_AT + AFTER:
            guard.close()
            break
    return sum(value > 1.5 * known["calm"] for value in losses[TRIP_AT:])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_keeping_the_data_and_passing_over_the_window_has_the_fewest_bad_steps(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITALS_HOME", str(tmp_path / "home"))
    answers = ("ride it out", "data rewound", "data kept", "data kept, window passed")
    bad = {answer: train(answer, seed, tmp_path / answer.replace(" ", "-").replace(",", "")) for answer in answers}
    print(bad)
    assert bad["data kept, window passed"] == 0
    # 20 bad batches are left at the trip; with the data rewound all 30 come once more.
    assert 20 <= bad["data kept"] <= bad["ride it out"] + 5 < bad["data rewound"]
