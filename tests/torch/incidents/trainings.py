"""Small trainings that are healthy until something is done to them, each watched by one policy and a guard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional
from vitalsdsl_torch import Ended, Guard, Vitals

from vitalsdsl.acting.memory import Memory
from vitalsdsl.language.rules import Level
from vitalsdsl.verdicts.verdict import Transition

POLICY = Path(__file__).parents[3] / "docs" / "incidents.vitals"
VOCABULARY, WIDTH, CONTEXT, BATCH = 32, 24, 16, 32


class Block(nn.Module):
    """One layer: what comes in, and what an MLP behind a norm makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, hidden: Any) -> Any:
        return hidden + self.mlp(self.norm(hidden))


class Net(nn.Module):
    """A language model of two such layers: from one word to the next."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(layers or (Block(), Block()))
        self.lm_head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words: Any) -> Any:
        hidden = self.embed(words)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


class Training:
    """The healthy training. An incident is a class below it that overrides what goes wrong, from batch `at` on.

    Batches are known by their number, from 0: batch 150 is that of step 151, as long as the run has not gone back. The
    `batch` of a number is the same whenever it is drawn. `is_wrong` is whether it goes wrong at all: its clean twin is the
    same class without.
    """

    steps: ClassVar[int] = 230
    at: ClassVar[int] = 150
    rate: ClassVar[float] = 3e-3
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    scaler: Any = None

    def __init__(self, is_wrong: bool, seed: int = 0) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.is_wrong, self.seed = is_wrong, seed
        self.model = self.made()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.rate, betas=self.betas)

    def made(self) -> nn.Module:
        return Net()

    def is_on(self, number: int, batches: int | None = None) -> bool:
        """Whether what is wrong is at work in this batch: from `at` on, for so many batches."""
        return self.is_wrong and self.at <= number < (self.at + batches if batches is not None else number + 1)

    def batch(self, number: int) -> torch.Tensor:
        """Sentences of a made-up language: each word mostly decides the next."""
        generator = self.generator(number)
        words = noise(generator)
        jumps = torch.randint(2, (BATCH, CONTEXT + 1), generator=generator)
        for at in range(CONTEXT):
            words[:, at + 1] = (words[:, at] * 5 + 7 + jumps[:, at]) % VOCABULARY
        return words

    def generator(self, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed * 1_000_000 + number)

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        logits = self.model(batch[:, :-1])
        return functional.cross_entropy(logits.reshape(-1, VOCABULARY).float(), batch[:, 1:].reshape(-1))

    def update(self, number: int, vitals: Vitals) -> torch.Tensor:
        """One update with this batch; gives its loss."""
        loss = self.loss(self.batch(number))
        loss.backward()
        vitals.clip_grad_norm_(1.0)
        self.optimizer.step()
        return loss.detach()

    def measured(self, number: int) -> Mapping[str, float]:
        """What it logs beside its vitals."""
        return {}


def noise(generator: torch.Generator) -> torch.Tensor:
    return torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), generator=generator)


class _Numbers:
    """Where a training is in its data."""

    def __init__(self) -> None:
        self.position = 0

    def skip_to(self, position: int) -> None:
        self.position = position


@dataclass(frozen=True)
class Watched:
    """What became of a training: the changes of level, what the guard did, and its own losses, step by step."""

    transitions: list[Transition]
    deeds: list[str]
    metrics: list[Mapping[str, float]]

    def first(self, rule: str, level: Level) -> Transition | None:
        """When a rule first came to a level."""
        return next((t for t in self.transitions if t.rule == rule and t.to is level and t.to > t.from_), None)

    @property
    def alarms(self) -> list[str]:
        """The rules that left green, in order."""
        return list(dict.fromkeys(t.rule for t in self.transitions if t.to is not Level.GREEN))


def watched(training: Training, folder: Path) -> Watched:
    """Train to the end, or to where the guard ends it."""
    vitals = Vitals(
        training.model, training.optimizer, scaler=training.scaler, off={"memory", "throughput", "timing"},
        log_every=1,
        every={"adam_ratio": 1, "param_norm": 5, "updates": 2, "dead_units": 1, "moe": 1},
    )  # fmt: skip
    heard, data, metrics = Memory(), _Numbers(), []
    guard = Guard(
        POLICY, folder, model=training.model, optimizer=training.optimizer, scaler=training.scaler, data=data,
        extra={"vitals": vitals}, run=folder.name, allow=("pause", "rollback", "stop"), every=40, probation=20, margin=10,
        skip=40, grace=20, ports=[heard],
    )  # fmt: skip
    try:
        for _ in guard.steps(training.steps):
            number = data.position
            data.position += 1
            loss = training.update(number, vitals)
            metrics.append(
                {**vitals.step(loss=loss, tokens=BATCH * CONTEXT, data_pos=number), **training.measured(number)}
            )
            training.optimizer.zero_grad()
            guard.step(metrics[-1])
    except Ended:
        pass  # the guard is closed, and what it did stands in its history
    return Watched(heard.transitions, _deeds(folder / "history.jsonl"), metrics)


def _deeds(history: Path) -> list[str]:
    records = [json.loads(line) for line in history.read_text("utf-8").splitlines()]
    turns = {record["request"]: record for record in records if record["type"] == "turn"}
    out = []
    for record in records:
        if record["type"] == "answer" and record["state"] == "done":
            turn = turns.get(record["id"])
            if turn is not None:
                out.append(f"from step {turn['trip_step']} back to {turn['step']}, on at batch {turn['position']}")
            elif record["result"].get("paused"):
                out.append(f"paused after step {record['at_step']}")
            else:
                out.append(f"stopped after step {record['at_step']}")
    return out
