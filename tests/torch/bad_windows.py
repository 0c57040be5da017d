"""A small language model, thirty bad batches, and the four answers to them."""

from __future__ import annotations

import copy
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from vitalsdsl_torch import Guard

from vitalsdsl.policies.policy import load

VOCABULARY, CONTEXT, BATCH = 32, 16, 32
BAD, TRIP_AT, SAVED_AT, AFTER = range(150, 180), 160, 125, 100
POLICY = "rule broken { when loss > 1.5 * calm for 10 steps -> red do rollback(lr: 100%) }"

RIDE, REWOUND, KEPT, PASSED = "ride it out", "data rewound", "data kept", "data kept, window passed"
ANSWERS = (RIDE, REWOUND, KEPT, PASSED)


class Sentences:
    """A made-up language, each batch by its number; uniform noise within the bad window."""

    def __init__(self, seed: int) -> None:
        self.position = 0
        self._seed = seed

    def skip_to(self, position: int) -> None:
        self.position = position

    def __next__(self) -> torch.Tensor:
        self.position += 1
        return self.batch(self.position - 1, self.position - 1 in BAD)

    def batch(self, number: int, is_bad: bool = False) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self._seed * 100_000 + number)
        words = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), generator=generator)
        if not is_bad:
            jumps = torch.randint(2, (BATCH, CONTEXT + 1), generator=generator)
            for at in range(CONTEXT):
                words[:, at + 1] = (words[:, at] * 5 + 7 + jumps[:, at]) % VOCABULARY
        return words


@dataclass(frozen=True)
class Outcome:
    """What an answer came to, after the same number of updates in all.

    `bad_steps` are those from the trip on with a loss above 1.5 times what it was in calm water; `final_loss` is that on
    held-out batches; `left_out` are the batches that were drawn, or passed over, and are not in the model.
    """

    bad_steps: int
    final_loss: float
    left_out: int


def train(answer: str, seed: int, folder: Path) -> Outcome:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Embedding(VOCABULARY, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, VOCABULARY))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = Sentences(seed)
    guard = Guard(
        load("bad", text=POLICY), folder, model=model, optimizer=optimizer, data=data, run=folder.name,
        allow=("rollback",) if answer in (KEPT, PASSED) else (), skip=20 if answer == PASSED else 0,
        every=SAVED_AT, probation=20, margin=20,
    )  # fmt: skip
    losses: list[float] = []
    known: dict[str, float] = {}
    saved: Any = None
    for _ in guard.steps(10_000):
        loss = _loss(model, next(data))
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
            assert guard.attempt == (answer in (KEPT, PASSED))
            if answer == REWOUND:  # by hand, since a guard does no such thing
                model.load_state_dict(saved[0])
                optimizer.load_state_dict(saved[1])
                data.position = SAVED_AT
        if len(losses) == TRIP_AT + AFTER:
            guard.close()
            break
    with torch.no_grad():
        final = statistics.mean(_loss(model, data.batch(50_000 + n)).item() for n in range(8))
    bad = sum(value > 1.5 * known["calm"] for value in losses[TRIP_AT:])
    return Outcome(bad, final, sum(end - first for first, end in guard.skipped))


def _loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
