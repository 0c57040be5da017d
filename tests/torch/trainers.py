"""The small training of `training_loops` in the hands of trainers: its model knows which batches went into it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from training_loops import SMALL, history, policy

BATCHES = 1_000


class Numbers(Dataset[int]):
    """Samples by number."""

    def __init__(self, length: int = BATCHES) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: int) -> int:
        return at


class Counted(torch.nn.Module):
    """A linear layer, and how often each sample went into it; the loss of bad ones is 10, or what is said, above 1."""

    accepts_loss_kwargs = False

    def __init__(self, bad: Any = (), loss: float = 10.0) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.register_buffer("seen", torch.zeros(BATCHES, dtype=torch.int64))
        self.bad, self.loss = frozenset(bad), loss
        self.order: list[int] = []

    def forward(self, number: Any, **_: Any) -> Any:
        (at,) = (int(one) for one in number)
        if self.training:
            self.seen[at] += 1
            self.order.append(at)
        noise = self.layer(torch.randn(4, 2)).pow(2).mean()
        said = self.loss if at in self.bad else 1.0
        return {"loss": 1e-3 * noise + said if said == said else noise * said}


def turns(folder: Path) -> list[dict[str, Any]]:
    """The rollbacks of a run, without what is different each time."""
    said = [record for record in history(folder) if record["type"] == "turn" and record["ladder"]]
    return [{name: value for name, value in one.items() if name != "request"} for one in said]


def account(folder: Path, seen: Any, position: int) -> None:
    """Each batch that was drawn is in the model once, or stands among those that are not."""
    out = {at for one in turns(folder) for at in range(one["since"], one["position"])}
    assert [int(n) for n in seen] == [int(at < position and at not in out) for at in range(len(seen))]


def verdict(path: Path) -> str:
    return str(json.loads(path.read_text("utf-8"))["state"])


__all__ = ["BATCHES", "SMALL", "Counted", "Numbers", "account", "policy", "turns", "verdict"]
