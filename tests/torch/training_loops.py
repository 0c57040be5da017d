"""A training small enough to be run hundreds of times, whose model knows which batches went into it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from vitalsdsl_torch import Guard

from vitalsdsl.acting.control import ControlFolder, control_of
from vitalsdsl.policies.policy import LoadedPolicy, load

BATCHES = 1_000
RED = "when loss > 5 for 3 steps -> red"
ORANGE = "when loss > 5 for 3 steps -> orange"
SMALL: Mapping[str, Any] = {
    "every": 20,
    "keep": 3,
    "milestone": 1_000,
    "probation": 10,
    "margin": 10,
    "skip": 20,
    "grace": 5,
}


def policy(text: str) -> LoadedPolicy:
    return load("small", text=text)


class Shelf:
    """Batches by number: 0, 1, 2, …. Going to any place is free."""

    def __init__(self) -> None:
        self.position = 0

    def __next__(self) -> int:
        self.position += 1
        return self.position - 1

    def skip_to(self, position: int) -> None:
        self.position = position


class Counting(torch.nn.Module):
    """A linear layer, and how often each batch went into it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.register_buffer("seen", torch.zeros(BATCHES, dtype=torch.int64))

    def forward(self, batch: int) -> Any:
        self.seen[batch] += 1
        return self.layer(torch.randn(4, 2)).pow(2).mean()


class Loop:
    """A training in a folder, with its guard. `bad` are the batches whose loss is said to be 10 instead of 1."""

    def __init__(
        self, folder: Path, text: str | None = RED, bad: range = range(0), seed: int = 0, **options: Any
    ) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.folder, self.bad = folder, bad
        self.model = Counting()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step / 100))
        self.data = options.pop("data", None) or Shelf()
        self.guard = Guard(
            policy(text) if text is not None else None, folder, model=self.model, optimizer=self.optimizer,
            scheduler=self.scheduler, data=self.data, run="small", **{**SMALL, "allow": ("pause", "rollback"), **options},
        )  # fmt: skip

    def train(
        self,
        total: int,
        before: Callable[[int], None] = lambda step: None,
        also: Callable[[int], dict[str, float]] = lambda batch: {},
    ) -> Loop:
        """To a step, calling `before` while each is under way; `also` gives more metrics of a batch."""
        for step in self.guard.steps(total):
            batch = next(self.data)
            self.model(batch).backward()
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            before(step)
            self.guard.step({"loss": 10.0 if batch in self.bad else 1.0, **also(batch)})
        return self

    @property
    def seen(self) -> list[int]:
        return [int(n) for n in self.model.seen]

    def tensors(self) -> list[torch.Tensor]:
        """Everything that training has changed, for comparison."""
        moments = [v for state in self.optimizer.state.values() for v in state.values()]
        return [*self.model.state_dict().values(), *moments, torch.tensor(self.scheduler.get_last_lr())]

    def said(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in history(self.folder) if record["type"] == kind]

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "checkpoints").iterdir())

    def marks(self) -> dict[str, str]:
        return {record["checkpoint"]: record["state"] for record in self.said("mark")}


def history(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text("utf-8").splitlines()]


def account(loop: Loop) -> None:
    """Each batch that was drawn is in the model once, or it stands in the list of those that are not."""
    out = {batch for first, end in loop.guard.skipped for batch in range(first, end)}
    expected = [int(batch < loop.data.position and batch not in out) for batch in range(BATCHES)]
    assert loop.seen == expected


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


def channel(control: Path) -> ControlFolder:
    return control_of("small", control)


def request(action: str, **fields: Any) -> dict[str, Any]:
    """A request as a watcher writes it, or a person, who says neither rule nor segment."""
    now = time.time()
    return {
        "id": str(uuid.uuid4()),
        "run": "small",
        "action": action,
        "issued_at": now,
        "expires_at": now + 600,
        **fields,
    }


def answers(control: Path) -> dict[str, tuple[str, str]]:
    """The state of each request with the reason, by id."""
    return {a.request["id"]: (a.state, str((a.answer or {}).get("reason", ""))) for a in channel(control).asked()}
